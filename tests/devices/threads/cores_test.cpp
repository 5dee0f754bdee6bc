// Cores: how many lanes may compute, that a thread leaves the core of another one, that a thread
// without CPU time is moved to the caller's core, and that all threads may use the same cores as
// before.
#include "devices/threads/cores.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

namespace troupe {
namespace {

std::vector<int> usable_cores() {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  std::vector<int> out;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all)) out.push_back(core);
  return out;
}

cpu_set_t set_of(const std::vector<int>& cores) {
  cpu_set_t out;
  CPU_ZERO(&out);
  for (const int core : cores) CPU_SET(core, &out);
  return out;
}

void use(const std::vector<int>& cores) {
  const cpu_set_t set = set_of(cores);
  REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
}

bool may_choose_cores() {
  const cpu_set_t set = set_of(usable_cores());
  if (sched_setaffinity(0, sizeof set, &set) == 0) return true;
  MESSAGE("skipped: this process may not choose its cores");
  return false;
}

bool may_use(const std::vector<int>& cores) {
  cpu_set_t now;
  const cpu_set_t wanted = set_of(cores);
  return sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &wanted);
}

// A lane on cores of its own; it computes until its destruction, or sleeps.
class Lane {
 public:
  Lane(Cores& cores, const std::vector<int>& mine, bool computes)
      : thread_([this, &cores, mine, computes] {
          use(mine);
          cores.lane_enters();
          entered_.count_down();
          while (computes && !end_.load()) rounds_.fetch_add(1);
          end_.wait(false);
          cores.lane_leaves();
          may_still_ = may_use(mine);
        }) {
    entered_.wait();
  }
  ~Lane() {
    end_.store(true);
    end_.notify_all();
    thread_.join();
    CHECK(may_still_);
  }
  Lane(const Lane&) = delete;
  // Waits until the lane has had some CPU time.
  void await_progress() const {
    for (const int64_t before = rounds_.load(); rounds_.load() < before + 100'000;)
      std::this_thread::yield();
  }

 private:
  std::latch entered_{1};
  std::atomic<bool> end_{false};
  std::atomic<int64_t> rounds_{0};
  bool may_still_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("as many lanes and callers compute as there are lanes, and at least one lane") {
  if (!may_choose_cores()) return;
  Cores cores;
  int woken = 0;
  cores.on_caller_leaves([&] { ++woken; });
  CHECK(cores.lane_may_compute(1));
  {
    Cores::Caller caller;
    caller.take(cores);
    caller.take(cores);
    CHECK(cores.lane_may_compute(1));
    const Lane first(cores, {usable_cores()[0]}, false);
    CHECK(!cores.lane_may_compute(2));
    CHECK(cores.lane_may_compute(3));
    const Lane second(cores, {usable_cores()[0]}, false);
    CHECK(!cores.lane_may_compute(3));
    CHECK(woken == 0);
  }
  CHECK(woken == 1);
  CHECK(cores.lane_may_compute(1));
}

TEST_CASE("a lane that calls is no caller beside itself") {
  Cores cores;
  cores.lane_enters();
  Cores::Caller caller;
  caller.take(cores);
  CHECK(cores.lane_may_compute(2));
  cores.lane_leaves();
}

TEST_CASE("a lane moves away from the core of another one") {
  const std::vector<int> all = usable_cores();
  if (!may_choose_cores()) return;
  if (all.size() < 2) {
    MESSAGE("skipped: this needs two cores");
    return;
  }
  Cores cores;
  const Lane other(cores, {all[0]}, true);
  use({all[0]});  // moves this thread to that core
  use(all);
  cores.lane_enters();
  CHECK(cores.move_apart() != all[0]);
  CHECK(may_use(all));
  cores.lane_leaves();
}

TEST_CASE("a lane that may use one core stays beside another one") {
  if (!may_choose_cores()) return;
  const std::vector<int> all = usable_cores();
  Cores cores;
  const Lane other(cores, {all[0]}, true);
  std::thread([&] {
    use({all[0]});
    cores.lane_enters();
    CHECK(cores.move_apart() == all[0]);
    CHECK(may_use({all[0]}));
    cores.lane_leaves();
  }).join();
}

TEST_CASE("who gets no time is brought, and who computes is left alone") {
  if (!may_choose_cores()) return;
  Cores cores;
  CHECK(!Cores::Watch(cores).bring());
  {
    const Lane computes(cores, {usable_cores().back()}, true);
    const Cores::Watch watch(cores);
    computes.await_progress();
    CHECK(!watch.bring());
  }
  const Lane waits(cores, usable_cores(), false);
  // The lane has entered and will soon sleep.
  bool brought = false;
  for (int round = 0; round < 10'000 && !brought; ++round) {
    const Cores::Watch watch(cores);
    for (int i = 0; i < Cores::kWatchSpins; ++i) std::this_thread::yield();
    brought = watch.bring();
  }
  CHECK(brought);
}

TEST_CASE("who may not use the core of the one that waits for it is not brought there") {
  if (!may_choose_cores()) return;
  if (usable_cores().size() < 2) {
    MESSAGE("skipped: there is one core");
    return;
  }
  Cores cores;
  const Lane waits(cores, {usable_cores().back()}, false);
  std::thread([&] {
    use({usable_cores().front()});
    for (int round = 0; round < 20; ++round) {
      const Cores::Watch watch(cores);
      for (int i = 0; i < Cores::kWatchSpins; ++i) std::this_thread::yield();
      CHECK(!watch.bring());
    }
  }).join();
}

}  // namespace troupe
