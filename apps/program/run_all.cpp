// Begins calls as others end, and hands their values on in order.
#include "apps/program/run_all.hpp"

#include <condition_variable>
#include <mutex>

using namespace troupe;

namespace {

// The calls that have begun, and their results. Its end cancels those under way and waits for them.
class Begun {
 public:
  Begun(const std::vector<Call>& calls, int64_t at_once)
      : calls_(calls), at_once_(static_cast<size_t>(at_once)), results_(calls.size()) {}
  Begun(const Begun&) = delete;
  ~Begun() {
    cancellation_.cancel();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ == begun_; });
  }

  // Waits for a call, and meanwhile begins others. Calls are asked for in their order.
  std::vector<Tensor> values_of(size_t call) {
    std::unique_lock lock(mutex_);
    for (;;) {
      begin(lock);
      if (failure_.code != Errc::ok) throw Error(failure_.code, failure_.text);
      if (results_[call]) return std::move(results_[call]->values);
      changed_.wait(lock, [&, before = ended_] { return ended_ > before; });
    }
  }

 private:
  void begin(std::unique_lock<std::mutex>& lock) {
    while (failure_.code == Errc::ok && begun_ < calls_.size() && begun_ - ended_ < at_once_) {
      const size_t i = begun_;
      lock.unlock();
      RunOptions options;
      options.timeout = kWorkTimeout;
      options.cancel = &cancellation_;
      calls_[i].callable.start(calls_[i].feeds, options,
                               [this, i](RunResult result) { end(i, std::move(result)); });
      lock.lock();
      ++begun_;
    }
  }
  void end(size_t call, RunResult result) {
    std::lock_guard lock(mutex_);
    if (result.code != Errc::ok && failure_.code == Errc::ok) failure_ = result;
    results_[call] = std::move(result);
    ++ended_;
    changed_.notify_one();  // under the lock: nothing of this object is touched after it
  }

  const std::vector<Call>& calls_;
  const size_t at_once_;
  Cancellation cancellation_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<std::optional<RunResult>> results_;
  RunResult failure_;  // of the first call that failed
  size_t begun_ = 0, ended_ = 0;
};

}  // namespace

void run_all(const std::vector<Call>& calls, int64_t at_once, ProgressLine& line, const char* unit,
             const std::function<void(size_t call, std::vector<Tensor> values)>& use) {
  Begun begun(calls, at_once);
  for (size_t i = 0; i < calls.size(); ++i) {
    use(i, begun.values_of(i));
    line.show(unit, static_cast<int64_t>(i + 1), static_cast<int64_t>(calls.size()));
  }
  line.end();
}
