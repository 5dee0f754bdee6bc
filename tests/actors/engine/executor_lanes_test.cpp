// Kernels of one step on several lanes.
// The harness is tests/support/engine/executor_rig.hpp.

#include <future>

#include "actors/engine/firing_jobs.hpp"
#include "tests/support/engine/executor_graphs.hpp"

namespace troupe {
namespace {

bool ran_elsewhere(std::set<std::thread::id> threads) {
  threads.erase(std::this_thread::get_id());
  return !threads.empty();
}

// Eight Slow nodes side by side.
struct WideRig : ExecutorRig {
  Output x = input(), y;
  WideRig() : ExecutorRig(2) {
    std::vector<Output> wide;
    for (int i = 0; i < 8; ++i)
      wide.push_back(op("Slow", {op("Add", {x, constant({i, -i})})}, "slow" + std::to_string(i)));
    y = op("Join", {op("Join", wide), op("Slow", {op("Join", wide)})});
    build({y}, {x});
  }
  // Steps until their costs have been measured: the executor times one of its first steps.
  void warm_up() {
    for (int i = 0; i < 2; ++i) check_against_plain_evaluation({ints({i, 5})});
    knobs().take_threads();
  }
};

TEST_CASE_FIXTURE(WideRig, "costly nodes run on lanes beside the caller and give the same bits") {
  knobs().work = 50'000;
  const int64_t before = used_bytes();
  warm_up();
  for (int i = 0; i < 20; ++i) {
    const std::vector<Tensor> fed = {ints({i, 7})};
    const std::vector<Tensor> want = expected(fed);
    knobs().take_threads();
    CHECK(same_bits(run(fed)[0], want[0]));
    CHECK(ran_elsewhere(knobs().take_threads()));
  }
  CHECK(used_bytes() == before);
}

TEST_CASE_FIXTURE(WideRig, "cheap nodes stay on the thread that runs the step") {
  for (int i = 0; i < 2; ++i) run({ints({i, 5})});
  tracer.start();  // every step is timed
  for (int i = 0; i < 200; ++i) run({ints({i, 5})});
  knobs().take_threads();
  // A busy machine may hold up a kernel that is being timed, so one quiet step is enough.
  bool alone = false;
  for (int i = 0; i < 1000 && !alone; ++i) {
    run({ints({i, 5})});
    alone = knobs().take_threads() == std::set<std::thread::id>{std::this_thread::get_id()};
  }
  CHECK(alone);
}

TEST_CASE_FIXTURE(WideRig, "a node that has become cheap comes back from the lanes") {
  knobs().work = 50'000;
  warm_up();
  run({ints({1, 5})});
  CHECK(ran_elsewhere(knobs().take_threads()));
  knobs().work = 0;
  tracer.start();  // every step is timed
  bool alone = false;
  for (int i = 0; i < 1000 && !alone; ++i) {
    run({ints({i, 5})});
    alone = knobs().take_threads() == std::set<std::thread::id>{std::this_thread::get_id()};
  }
  CHECK(alone);
}

TEST_CASE("a kernel that throws on a lane is run again there, within the same limits") {
  ExecutorRig rig(2);
  const Output x = rig.input();
  std::vector<Output> wide;
  for (int i = 0; i < 4; ++i)
    wide.push_back(rig.op("Flaky", {rig.op("Slow", {x})}, "luck" + std::to_string(i)));
  rig.build({rig.op("Join", wide)}, {x});
  knobs().work = 20'000;
  // Timed with failures, Flaky is costly, too: an exception takes its time. Either way the result
  // is the same.
  const int64_t before = rig.used_bytes();
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    const std::vector<Tensor> fed = {ints({i, 7})};
    const std::vector<Tensor> want = rig.expected(fed);
    knobs().failures = 3;
    const std::vector<Tensor> got = rig.run(fed);
    REQUIRE(rig.last.code == Errc::ok);
    CHECK(same_bits(got[0], want[0]));
    knobs().failures = 1000;
    rig.run(fed);
    CHECK(rig.last.code == Errc::io);
    knobs().failures = 0;
  }
  CHECK(rig.used_bytes() == before);
}

TEST_CASE("steps on lanes survive a cancel at any moment") {
  ExecutorRig rig(2);
  const Output x = rig.input();
  std::vector<Output> wide;
  for (int i = 0; i < 4; ++i)
    wide.push_back(rig.op("Slow", {rig.op("AtOnce", {rig.op("Slow", {x})})}));
  rig.build({rig.op("Join", wide)}, {x});
  knobs().work = 20'000;
  const std::vector<Tensor> fed = {ints({3, 7})}, want = rig.run(fed);
  const int64_t before = rig.used_bytes();
  int cancelled = 0;
  for (int i = 0; i < 200; ++i) {
    const int64_t run = rig.next_run++;
    std::atomic<bool> armed{false};
    std::thread cancelling([&rig, &armed, run, i] {
      while (!armed) std::this_thread::yield();
      for (int spin = 0; spin < 200 * i; ++spin) armed.load();
      rig.client().cancel(run, Errc::cancelled, "enough");
    });
    ExecutorRig::Run step(rig, run, fed);
    armed = true;
    step.fire();
    const StepResult result = step.finish();
    cancelling.join();
    if (result.code == Errc::ok)
      CHECK(same_bits(step.values[0], want[0]));
    else
      ++cancelled;
    CHECK((result.code == Errc::ok || result.code == Errc::cancelled));
  }
  CHECK(cancelled > 0);
  CHECK(rig.used_bytes() == before);
}

TEST_CASE("random graphs with costly nodes on two lanes give what plain evaluation gives") {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    ExecutorRig rig(2);
    knobs().work = 20'000;
    const std::vector<Output> xs = {rig.input("x0"), rig.input("x1"), rig.constant({4, 5})};
    rig.build(random_graph(rig, xs, 60, random), {xs[0], xs[1]});
    for (int step = 0; step < 5; ++step)
      rig.check_against_plain_evaluation({ints({static_cast<int32_t>(random()), 2}),
                                          ints({step, static_cast<int32_t>(random())})});
  }
}

// Something on the second queue of the lanes, as LaneJob is.
class OpJob final : public caf::resumable, public caf::ref_counted {
 public:
  explicit OpJob(std::function<void()> work) : work_(std::move(work)) {}
  subtype_t subtype() const override { return function_object; }
  resume_result resume(caf::execution_unit*, size_t) override {
    work_();
    return awaiting_message;
  }
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

 private:
  const std::function<void()> work_;
};

TEST_CASE("a lane takes up actors and steps before op jobs that were there first") {
  ExecutorRig rig;
  const Output x = rig.input();
  rig.build({rig.op("AddOne", {x})}, {x});
  std::string order;  // the lane's, until it is done
  std::promise<void> held, release, done;
  const caf::actor actor = rig.system().spawn([&](caf::event_based_actor*) -> caf::behavior {
    return {[&](int turn) {
      if (turn == 0) {
        held.set_value();  // the only lane is ours
        release.get_future().wait();
      } else {
        order += "actor ";
      }
    }};
  });
  caf::anon_send(actor, 0);
  held.get_future().wait();
  const auto job = [&](const std::function<void()>& work) {
    rig.system().scheduler().enqueue(new OpJob(work));
  };
  job([&] { order += "job "; });
  job([&] {
    order += "job ";
    done.set_value();
  });
  caf::anon_send(actor, 1);
  StepPtr step = rig.client().begin({.run = 1}, [&](Step&) { order += "step "; });
  step->set_source(rig.client().program().source_slot(x.node, 0), ints({1, 2}));
  CHECK(LaneJob(step, {}).subtype() == caf::resumable::function_object);
  step->schedule();
  release.set_value();
  REQUIRE(done.get_future().wait_for(kSoon) == std::future_status::ready);
  CHECK(order == "actor step job job ");
  rig.client().release(std::move(step));
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
}

}  // namespace
}  // namespace troupe
