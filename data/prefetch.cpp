// Prefetch of troupe/data.hpp: one thread that makes the next batches of one replica.
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "troupe/data.hpp"

namespace troupe {

struct Prefetch::State {
  State(Batches b, int64_t s, int64_t first, int64_t d)
      : batches(std::move(b)), replica(s), depth(d), next(first) {}

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock,
                [&] { return stop || (!failure && static_cast<int64_t>(ready.size()) < depth); });
      if (stop) return;
      const int64_t step = next++, aim = jumps;
      making = step;
      lock.unlock();
      Batch batch;
      std::exception_ptr error;
      try {
        batch = batches.at(step, replica);
      } catch (...) {  // rethrown by at()
        error = std::current_exception();
      }
      lock.lock();
      making.reset();
      if (aim != jumps) continue;  // a jump has made it obsolete
      if (error)
        failure = error;
      else
        ready.emplace(step, std::move(batch));
      made.notify_all();
    }
  }

  const Batches batches;
  const int64_t replica, depth;

  std::mutex mutex;  // guards the rest
  std::condition_variable wake, made;
  std::map<int64_t, Batch> ready;  // at most `depth`
  int64_t next;                    // the step that the thread makes next
  std::optional<int64_t> making;   // the step that it is making
  int64_t jumps = 0;
  bool stop = false;
  std::exception_ptr failure;
  std::thread thread;
};

Prefetch::Prefetch(Batches batches, int64_t replica, int64_t first_step, int64_t depth) {
  if (depth < 1)
    throw Error(Errc::invalid_argument, "prefetching wants a depth of at least 1, got ", depth);
  batches.records_at(first_step, replica);  // throws here for a replica or step that does not exist
  state_ = std::make_unique<State>(std::move(batches), replica, first_step, depth);
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Prefetch::~Prefetch() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

Batch Prefetch::at(int64_t step) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const auto drop_older = [&] { s.ready.erase(s.ready.begin(), s.ready.lower_bound(step)); };
  drop_older();
  const bool coming =
      s.ready.count(step) || s.making == step || (s.ready.empty() && s.next == step);
  if (!coming) {
    s.ready.clear();
    s.failure = nullptr;
    s.next = step;
    ++s.jumps;
  }
  while (!s.ready.count(step)) {
    if (s.failure) std::rethrow_exception(std::exchange(s.failure, nullptr));
    drop_older();  // otherwise the thread might wait for room
    s.wake.notify_all();
    s.made.wait(lock);
  }
  Batch out = std::move(s.ready.at(step));
  s.ready.erase(step);
  s.wake.notify_all();
  return out;
}

}  // namespace troupe
