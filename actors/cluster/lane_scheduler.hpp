// The one set of threads of a process: CAF's actors and our op jobs run on the same lanes, by this
// scheduler policy.
//
// Two queues: actors with messages and steps without an owner first, op jobs second, so that a
// control message never waits behind a row of kernels. An idle lane spins for a moment, for longer
// after an op job, then sleeps; it is woken only when somebody sleeps. Op jobs wait while as many
// lanes and callers have something to do as there are lanes (devices/threads/cores.hpp), unless no
// lane has; and not for long.
//
// Owner: the actor system. Thread: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <caf/all.hpp>
#include <caf/policy/unprofiled.hpp>
#include <caf/scheduler/coordinator.hpp>

#include "devices/threads/cores.hpp"
#include "devices/threads/burst.hpp"

namespace troupe {

class LanePolicy : public caf::policy::unprofiled {
  using Clock = std::chrono::steady_clock;

 public:
  struct coordinator_data {  // names that CAF prescribes
    explicit coordinator_data(caf::scheduler::abstract_coordinator* self) : coordinator(self) {
      cores->on_caller_leaves([this] {
        bool wake = false;
        {
          std::lock_guard lock(mutex);
          wake = sleepers > 0 && !jobs.empty();
        }
        if (wake) awake.notify_one();
      });
    }
    int lanes() const { return static_cast<int>(coordinator->num_workers()); }
    bool has_work() const {  // requires mutex
      return !actors.empty() || (!jobs.empty() && cores->lane_may_compute(lanes()));
    }

    const caf::scheduler::abstract_coordinator* const coordinator;
    const std::shared_ptr<Cores> cores = std::make_shared<Cores>();
    std::mutex mutex;  // guards the rest
    std::condition_variable awake;
    std::deque<caf::resumable*> actors;
    std::deque<caf::resumable*> jobs;
    Clock::time_point jobs_since;  // from when on the first one waits, or the last one was taken
    // An op job waits at most this long for a free core: a step may sleep on it.
    std::chrono::milliseconds job_waits_max{10};
    int sleepers = 0;
    int watchers = 0;  // sleepers that look again when the first job has waited for long
    std::atomic<int64_t> waiting{0};  // in both queues; read without the mutex while spinning
    std::atomic<int64_t> actors_waiting{0};  // read without the mutex by steps (Step::own())
    std::atomic<int> at_hand{0};             // lanes that have just done an op job, and spin
  };
  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    auto& data = d(self);
    bool wake = false;
    {
      std::lock_guard lock(data.mutex);
      if (job->subtype() == caf::resumable::function_object) {
        if (data.jobs.empty()) data.jobs_since = Clock::now();
        data.jobs.push_back(job);
      } else {
        data.actors.push_back(job);
        if (job->subtype() == caf::resumable::scheduled_actor)
          data.actors_waiting.fetch_add(1, std::memory_order_relaxed);
      }
      data.waiting.fetch_add(1, std::memory_order_release);
      wake = data.sleepers > 0 && (data.has_work() || data.watchers == 0);
    }
    if (wake) data.awake.notify_one();
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }

  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    // Messages that actors in a row send leave together.
    static thread_local const Burst lane;
    static thread_local int row = 0;
    static thread_local bool had_job = false;
    static thread_local bool entered = false;
    auto& data = d(self->parent());
    if (std::exchange(entered, true)) data.cores->lane_leaves();
    if (caf::resumable* actor = row < kRowMax ? next_actor(data) : nullptr) {
      ++row;
      return actor;
    }
    row = 0;
    Burst::finish();
    spin(data, had_job);
    std::unique_lock lock(data.mutex);
    bool watches = false;
    while (!data.has_work()) {
      watches = !data.jobs.empty();
      const Clock::time_point late = data.jobs_since + data.job_waits_max;
      if (watches && Clock::now() >= late) break;
      ++data.sleepers;
      data.watchers += watches ? 1 : 0;
      if (watches)
        data.awake.wait_until(lock, late);
      else
        data.awake.wait(lock);
      data.watchers -= watches ? 1 : 0;
      --data.sleepers;
    }
    caf::resumable* const next = pop(data);
    data.cores->lane_enters();
    // Jobs that came while this lane watched have woken nobody.
    const bool hand_over = watches && !data.jobs.empty() && data.watchers == 0 && data.sleepers > 0;
    lock.unlock();
    if (hand_over) data.awake.notify_one();
    had_job = next->subtype() == caf::resumable::function_object;
    if (had_job) data.cores->move_apart();
    return next;
  }

  template <class Worker, class F>
  void foreach_resumable(Worker*, F) {}
  template <class Coordinator, class F>
  void foreach_central_resumable(Coordinator* self, F f) {
    auto& data = d(self);
    std::unique_lock lock(data.mutex);
    while (!data.actors.empty() || !data.jobs.empty()) f(pop(data));
  }

 private:
  // Another actor that waits; null if there is none, or something that may take longer is first.
  static caf::resumable* next_actor(coordinator_data& data) {
    std::lock_guard lock(data.mutex);
    if (data.actors.empty() || data.actors.front()->subtype() != caf::resumable::scheduled_actor)
      return nullptr;
    data.cores->lane_enters();
    return pop(data);
  }

  // Until there is something to do, others have taken the cores, or it has taken long enough. All
  // lanes but one, and fewer than there are cores, may wait for longer: whoever runs the step wants
  // a core, too.
  static void spin(coordinator_data& data, bool had_job) {
    const int lanes = data.lanes();
    const bool at_hand = had_job && data.at_hand.fetch_add(1, std::memory_order_relaxed) <
                                        std::min(lanes, core_count()) - 1;
    const int spins = at_hand ? kSpinsAfterJob : kSpins;
    for (int i = 0; i < spins && data.waiting.load(std::memory_order_acquire) == 0 &&
                    data.cores->lane_may_compute(lanes);
         ++i)
      __builtin_ia32_pause();
    if (had_job) data.at_hand.fetch_sub(1, std::memory_order_relaxed);
  }

  static int core_count() {
    static const int found = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    return found;
  }

  static constexpr int kRowMax = 16;  // actors, before what they have sent leaves
  static constexpr int kSpins =
      500;  // about 20 us: the gap between the ops of one step, not an idle process
  // About 200 us: what a step does on one thread between two ops that are cut, and between steps.
  static constexpr int kSpinsAfterJob = 5000;

  static caf::resumable* pop(coordinator_data& data) {
    auto& queue = data.actors.empty() ? data.jobs : data.actors;
    caf::resumable* job = queue.front();
    queue.pop_front();
    if (job->subtype() == caf::resumable::scheduled_actor)
      data.actors_waiting.fetch_sub(1, std::memory_order_relaxed);
    if (&queue == &data.jobs && !queue.empty()) data.jobs_since = Clock::now();
    data.waiting.fetch_sub(1, std::memory_order_release);
    return job;
  }
};

// Load into a configuration with config.load<LaneScheduler>(); the number of lanes is
// "scheduler.max-threads".
class LaneScheduler : public caf::scheduler::coordinator<LanePolicy> {
 public:
  using coordinator::coordinator;
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new LaneScheduler(system);
  }
  const std::shared_ptr<Cores>& cores() { return data().cores; }
  const std::atomic<int64_t>& actors_waiting() { return data().actors_waiting; }
};

}  // namespace troupe
