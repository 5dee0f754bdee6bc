// The threads that make the records of the next steps.
#include "data/source/step_reader.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "data/reading.hpp"
#include "data/source/next_step.hpp"

namespace troupe {
namespace {

using Clock = Reading::Clock;
constexpr std::chrono::seconds kEndPatience{2};
constexpr const char* kStopped = "the source is not read any more";

struct Outcome {
  Errc code = Errc::ok;
  std::string text = {};
  Record record = {};
};

// Runs `make`, which returns an Outcome; its exception is the outcome otherwise.
template <class F>
Outcome outcome_of(const F& make) {
  try {
    return make();
  } catch (const Error& e) {
    return {e.code(), e.what(), {}};
  } catch (const std::bad_alloc&) {
    return {Errc::out_of_memory, "there is no memory for a record of the source", {}};
  } catch (const std::exception& e) {
    return {Errc::bad_data, e.what(), {}};
  } catch (...) {  // of a program's function
    return {
        Errc::bad_data, "a function of the source threw something that is no std::exception", {}};
  }
}

// A cursor whose stages are built at the first step.
struct LateCursor {
  std::shared_ptr<SharedStages> stages;
  int64_t replica, replicas;
  std::unique_ptr<SourceCursor> cursor = nullptr;

  // Throws: as build_stages() and SourceCursor::at().
  Lazy at(int64_t step) {
    if (!cursor)
      cursor =
          std::make_unique<SourceCursor>(stages->get(), stages->plan().epochs, replica, replicas);
    return cursor->at(step);
  }
  void drop() {
    cursor.reset();
    stages.reset();
  }
};

Outcome made(const Lazy& record, int64_t step) {
  if (!record) return {Errc::end_of_data, detail::concat("the source ends before step ", step), {}};
  return {Errc::ok, {}, record->make()};
}

// A step that a thread makes.
struct Making {
  int64_t aim = 0;  // the count of jumps when it was begun
  std::string place = "its files";
  Clock::time_point since = Clock::now();
};

}  // namespace

struct StepReader::State {
  explicit State(LateCursor c) : depth(c.stages->plan().depth), cursor(std::move(c)) {}

  void run();
  void work(std::unique_lock<std::mutex>& lock);
  StepsAsked asked() const;
  void jump_to(int64_t step);
  std::optional<Outcome> known(int64_t step);
  void given(int64_t step, const Outcome& outcome, bool in_order = true);
  void deliver(std::unique_lock<std::mutex>& lock, int64_t step, Outcome outcome, bool in_order);

  const int64_t depth;
  Reading reading;
  LateCursor cursor;  // used by the thread that has set `cursor_used`, alone

  mutable std::mutex mutex;  // guards the rest
  std::condition_variable wake, all_ended;
  bool cursor_used = false;
  int64_t threads = 0;
  StepsAsked steps = {};                  // without `missing`
  int64_t jumps = 0;                      // counted, so that a step from before a jump is dropped
  std::map<int64_t, Making> making;       // by step
  std::map<int64_t, Outcome> ready;       // by step
  std::multimap<int64_t, Reply> waiting;  // by step
  std::optional<std::pair<int64_t, Record>> newest;  // the one given last, for a step done again
};

void StepReader::State::run() {
  const Reading::Scope scope(reading);
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [&] {
      return reading.stopped() || (!cursor_used && next_step(asked()).has_value());
    });
    if (reading.stopped()) break;
    work(lock);
  }
  if (threads == 1) {  // the last one
    lock.unlock();     // a cache may be large
    cursor.drop();
    lock.lock();
  }
  if (--threads == 0) all_ended.notify_all();
}

StepsAsked StepReader::State::asked() const {
  StepsAsked out = steps;
  out.depth = depth;
  for (const auto& [step, reply] : waiting)
    if (!making.count(step)) {
      out.missing = step;
      break;
    }
  return out;
}

void StepReader::State::jump_to(int64_t step) {
  ready.clear();
  steps.newest = step;
  ++jumps;
}

// Makes the next step. Requires: the lock, which is open meanwhile.
void StepReader::State::work(std::unique_lock<std::mutex>& lock) {
  const NextStep next = next_step(asked()).value();
  const int64_t step = next.step;
  if (next.jumps) jump_to(step);
  steps.at = step + 1;
  const int64_t aim = jumps;
  cursor_used = true;
  making[step] = Making{aim};
  lock.unlock();
  Lazy record;
  std::string place;
  Outcome outcome = outcome_of([&] {
    record = cursor.at(step);
    if (record) place = record->place();
    return Outcome{};
  });
  lock.lock();
  cursor_used = false;
  wake.notify_one();
  if (outcome.code == Errc::ok) {
    // After a jump another thread may make the step, too.
    if (const auto it = making.find(step); it != making.end() && it->second.aim == aim)
      it->second.place = std::move(place);
    lock.unlock();
    outcome = outcome_of([&] { return made(record, step); });
    record.reset();
    lock.lock();
  }
  if (const auto it = making.find(step); it != making.end() && it->second.aim == aim)
    making.erase(it);
  if (outcome.code == Errc::end_of_data) steps.end = steps.end ? std::min(*steps.end, step) : step;
  deliver(lock, step, std::move(outcome), /*in_order=*/aim == jumps);
}

// Gives an outcome to the reads that wait for it, or keeps it for one to come. `in_order`: there
// was no jump since the step was begun.
void StepReader::State::deliver(std::unique_lock<std::mutex>& lock, int64_t step, Outcome outcome,
                                bool in_order) {
  std::vector<Reply> replies;
  const auto [begin, end] = waiting.equal_range(step);
  for (auto it = begin; it != end; ++it) replies.push_back(std::move(it->second));
  waiting.erase(begin, end);
  if (replies.empty()) {
    if (in_order) ready.emplace(step, std::move(outcome));
    return;
  }
  given(step, outcome, in_order);
  lock.unlock();
  for (const Reply& reply : replies) reply(outcome.code, outcome.text, outcome.record);
  lock.lock();
}

// The outcome of a step that need not be made.
std::optional<Outcome> StepReader::State::known(int64_t step) {
  if (newest && newest->first == step) return Outcome{Errc::ok, {}, newest->second};
  if (steps.end && step >= *steps.end) return made(nullptr, step);
  const auto it = ready.find(step);
  if (it == ready.end()) return std::nullopt;
  Outcome out = std::move(it->second);
  ready.erase(it);
  given(step, out);
  return out;
}

// Steps far behind one that is given are dropped: no read has come for them.
void StepReader::State::given(int64_t step, const Outcome& outcome, bool in_order) {
  if (outcome.code == Errc::ok) newest = {step, outcome.record};
  if (!in_order) return;
  ready.erase(ready.begin(), ready.lower_bound(step - depth));
  steps.newest = std::max(steps.newest, step);
}

StepReader::StepReader(std::shared_ptr<SharedStages> stages, int64_t replica, int64_t replicas,
                       bool in_line)
    : state_(std::make_shared<State>(LateCursor{std::move(stages), replica, replicas})) {
  const int64_t threads = in_line ? 0 : state_->cursor.stages->plan().threads;
  for (int64_t i = 0; i < threads; ++i) try {
      std::lock_guard lock(state_->mutex);
      std::thread([state = state_] { state->run(); }).detach();
      ++state_->threads;
    } catch (const std::system_error& e) {
      stop();
      throw Error(Errc::out_of_memory, "the system denies thread ", i + 1, " of ", threads,
                  " for a source: ", e.what(), "; ask for fewer with prefetch()");
    }
}

StepReader::~StepReader() {
  stop();
  std::unique_lock lock(state_->mutex);
  state_->all_ended.wait_for(lock, kEndPatience, [&] { return state_->threads == 0; });
}

void StepReader::stop() {
  State& s = *state_;
  std::multimap<int64_t, Reply> left;
  {
    std::lock_guard lock(s.mutex);
    s.reading.stop();
    left.swap(s.waiting);
    s.ready.clear();
    s.newest.reset();
    if (s.threads == 0) s.cursor.drop();
    s.wake.notify_all();
  }
  for (const auto& [step, reply] : left) reply(Errc::cancelled, kStopped, {});
}

bool StepReader::ended() const {
  std::lock_guard lock(state_->mutex);
  return state_->reading.stopped() && state_->threads == 0;
}

void StepReader::read(int64_t step, Reply reply) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  std::optional<Outcome> now = s.known(step);
  if (s.reading.stopped()) {
    now = Outcome{Errc::cancelled, kStopped, {}};
  } else if (!now && s.threads == 0) {
    now = outcome_of([&] { return made(s.cursor.at(step), step); });
    s.given(step, *now);
  }
  if (!now) {
    if (s.waiting.empty()) s.reading.touch();
    s.steps.newest = std::max(s.steps.newest, step);
    s.waiting.emplace(step, std::move(reply));
  }
  s.wake.notify_all();
  lock.unlock();
  if (now) reply(now->code, now->text, std::move(now->record));
}

bool StepReader::waits() const {
  std::lock_guard lock(state_->mutex);
  return !state_->waiting.empty();
}

Clock::time_point StepReader::moved() const { return state_->reading.last(); }

std::string StepReader::doing() const {
  std::lock_guard lock(state_->mutex);
  std::string out;
  for (const auto& [step, making] : state_->making)
    out += detail::concat(
        out.empty() ? "makes step " : ", step ", step, ", of ", making.place, ", since ",
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - making.since).count(),
        " s");
  return out.empty() ? "is idle" : out;
}

}  // namespace troupe
