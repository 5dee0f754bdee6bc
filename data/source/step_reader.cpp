// The threads that make the records of the next steps.
#include "data/source/step_reader.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kEndPatience{2};

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

  int64_t depth() const { return stages->plan().depth; }
  // Throws: as build_stages() and SourceCursor::at().
  Lazy at(int64_t step) {
    if (!cursor)
      cursor =
          std::make_unique<SourceCursor>(stages->get(), stages->plan().epochs, replica, replicas);
    return cursor->at(step);
  }
};

Outcome made(const Lazy& record, int64_t step) {
  if (!record) return {Errc::end_of_data, detail::concat("the source ends before step ", step), {}};
  return {Errc::ok, {}, record->make()};
}

}  // namespace

struct StepReader::State {
  explicit State(LateCursor c) : cursor(std::move(c)) {}

  void run();
  void work(std::unique_lock<std::mutex>& lock);
  void choose();
  void jump_to(int64_t step);
  bool may_work() const {
    if (reading) return false;
    for (const auto& [step, reply] : waiting)
      if (!making.count(step)) return true;
    return next <= wanted + cursor.depth() && (!end || next < *end);
  }
  void deliver(std::unique_lock<std::mutex>& lock, int64_t step, Outcome outcome, bool keep);

  LateCursor cursor;  // used by the thread that has set `reading`, alone

  mutable std::mutex mutex;  // guards the rest
  std::condition_variable wake, all_ended;
  bool stop = false, reading = false;
  int threads = 0;
  int64_t wanted = 0;          // the newest step that was read
  int64_t next = 0;            // the step that is made next
  int64_t jumps = 0;           // counted, so that a step from before a jump is dropped
  std::optional<int64_t> end;  // the first step past the data, once it is known
  std::map<int64_t, std::pair<std::string, Clock::time_point>>
      making;  // by step: its place; since the last jump
  std::map<int64_t, Outcome> ready;
  std::multimap<int64_t, Reply> waiting;             // by step
  std::optional<std::pair<int64_t, Record>> newest;  // the one given last, for a step done again
};

void StepReader::State::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [&] { return stop || may_work(); });
    if (stop) break;
    work(lock);
  }
  if (--threads == 0) all_ended.notify_all();
}

// Goes to the first step that is waited for, unless it is made already, or soon.
void StepReader::State::choose() {
  for (const auto& [step, reply] : waiting) {
    if (making.count(step)) continue;
    if (step < next || step > next + cursor.depth()) jump_to(step);
    return;
  }
}

void StepReader::State::jump_to(int64_t step) {
  ready.clear();
  making.clear();
  next = wanted = step;
  ++jumps;
}

// Makes the next step. Requires: the lock, which is open meanwhile.
void StepReader::State::work(std::unique_lock<std::mutex>& lock) {
  choose();
  const int64_t step = next++, aim = jumps;
  reading = true;
  making[step] = {"its files", Clock::now()};
  lock.unlock();
  Lazy record;
  Outcome outcome = outcome_of([&] {
    record = cursor.at(step);
    return Outcome{};
  });
  std::string place;
  if (record) outcome = outcome_of([&] { return place = record->place(), Outcome{}; });
  lock.lock();
  reading = false;
  wake.notify_one();
  if (outcome.code == Errc::ok) {
    if (aim == jumps) making[step].first = std::move(place);
    lock.unlock();
    outcome = outcome_of([&] { return made(record, step); });
    record.reset();
    lock.lock();
  }
  if (aim == jumps) making.erase(step);
  if (outcome.code == Errc::end_of_data) end = end ? std::min(*end, step) : step;
  deliver(lock, step, std::move(outcome), /*keep=*/aim == jumps);
}

// Gives an outcome to the reads that wait for it, or keeps it for one to come.
void StepReader::State::deliver(std::unique_lock<std::mutex>& lock, int64_t step, Outcome outcome,
                                bool keep) {
  std::vector<Reply> replies;
  const auto [begin, end_of] = waiting.equal_range(step);
  for (auto it = begin; it != end_of; ++it) replies.push_back(std::move(it->second));
  waiting.erase(begin, end_of);
  if (replies.empty()) {
    if (keep) ready.emplace(step, std::move(outcome));
    return;
  }
  if (outcome.code == Errc::ok) newest = {step, outcome.record};
  lock.unlock();
  for (const Reply& reply : replies) reply(outcome.code, outcome.text, outcome.record);
  lock.lock();
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
      end();
      throw Error(Errc::out_of_memory, "the system denies thread ", i + 1, " of ", threads,
                  " for a source: ", e.what(), "; ask for fewer with prefetch()");
    }
}

StepReader::~StepReader() { end(); }

void StepReader::end() {
  std::multimap<int64_t, Reply> left;
  {
    std::unique_lock lock(state_->mutex);
    state_->stop = true;
    left = std::exchange(state_->waiting, {});
    state_->wake.notify_all();
    state_->all_ended.wait_for(lock, kEndPatience, [&] { return state_->threads == 0; });
  }
  for (const auto& [step, reply] : left)
    reply(Errc::cancelled, "the source is not read any more", {});
}

void StepReader::read(int64_t step, Reply reply) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  std::optional<Outcome> now;
  if (s.newest && s.newest->first == step) {
    now = Outcome{Errc::ok, {}, s.newest->second};
  } else if (s.end && step >= *s.end) {
    now = made(nullptr, step);
  } else if (s.threads == 0) {
    now = outcome_of([&] { return made(s.cursor.at(step), step); });
    if (now->code == Errc::ok) s.newest = {step, now->record};
  } else {
    if (const auto it = s.ready.find(step); it != s.ready.end()) {
      now = std::move(it->second);
      s.ready.erase(s.ready.begin(), std::next(it));
      if (now->code == Errc::ok) s.newest = {step, now->record};
      s.wanted = step;
    } else {
      if (s.waiting.empty() && !s.making.count(step) && s.next != step) s.jump_to(step);
      s.wanted = std::max(s.wanted, step);
      s.waiting.emplace(step, std::move(reply));
    }
    s.wake.notify_all();
  }
  lock.unlock();
  if (now) reply(now->code, now->text, std::move(now->record));
}

bool StepReader::waits() const {
  std::lock_guard lock(state_->mutex);
  return !state_->waiting.empty();
}

std::string StepReader::doing() const {
  std::lock_guard lock(state_->mutex);
  std::string out;
  for (const auto& [step, what] : state_->making)
    out += detail::concat(
        out.empty() ? "makes step " : ", step ", step, ", of ", what.first, ", since ",
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - what.second).count(), " s");
  return out.empty() ? "is idle" : out;
}

}  // namespace troupe
