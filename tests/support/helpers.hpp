// Helpers: a Lanes with threads that help it on request, for tests of code that is cut into jobs.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "devices/threads/lanes.hpp"

namespace troupe {

class Helpers {
 public:
  explicit Helpers(int n) : lanes(n, [this](int asked) { ask(asked); }) {
    for (int i = 0; i < n; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~Helpers() {
    ask(1 << 20);
    for (std::thread& thread : threads_) thread.join();
  }
  template <class F>
  void run(int64_t jobs, const F& f) {
    lanes.run(
        jobs, [](const void* context, int64_t job) { (*static_cast<const F*>(context))(job); }, &f);
  }

  Lanes lanes;

 private:
  void ask(int n) {
    std::lock_guard lock(mutex_);
    asked_ += n;
    awake_.notify_all();
  }
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      awake_.wait(lock, [&] { return asked_ > 0; });
      if (asked_ > 1 << 19) return;
      --asked_;
      lock.unlock();
      lanes.help();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable awake_;
  int asked_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace troupe
