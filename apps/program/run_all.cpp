// Begins calls as others end, and hands their values on in order.
#include "apps/program/run_all.hpp"

#include <condition_variable>
#include <mutex>

using namespace troupe;

void run_all(const std::vector<Call>& calls, int64_t at_once, ProgressLine& line, const char* unit,
             const std::function<void(size_t call, std::vector<Tensor> values)>& use) {
  struct Slot {
    bool ended = false;
    RunResult result;
  };
  std::mutex mutex;  // guards the slots and `ended`
  std::condition_variable changed;
  std::vector<Slot> slots(calls.size());
  size_t begun = 0, ended = 0, used = 0;
  bool failed = false;
  std::unique_lock lock(mutex);
  while (used < calls.size()) {
    while (!failed && begun < calls.size() && begun - ended < static_cast<size_t>(at_once)) {
      const size_t i = begun++;
      lock.unlock();
      calls[i].callable.start(calls[i].feeds, {}, [&, i](RunResult result) {
        std::lock_guard held(mutex);
        slots[i] = {true, std::move(result)};
        ++ended;
        changed.notify_one();
      });
      lock.lock();
    }
    if (failed && ended == begun) break;
    const bool next_has_ended = slots[used].ended && slots[used].result.code == Errc::ok;
    if (!next_has_ended || failed) {
      changed.wait(lock, [&, before = ended] { return ended > before || slots[used].ended; });
      for (const Slot& s : slots) failed |= s.ended && s.result.code != Errc::ok;
      continue;
    }
    std::vector<Tensor> values = std::move(slots[used].result.values);
    lock.unlock();
    use(used++, std::move(values));
    line.show(unit, static_cast<int64_t>(used), static_cast<int64_t>(calls.size()));
    lock.lock();
  }
  line.end();
  for (const Slot& s : slots)
    if (s.ended && s.result.code != Errc::ok) throw Error(s.result.code, s.result.text);
}
