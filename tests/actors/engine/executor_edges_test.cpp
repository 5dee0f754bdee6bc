// Values that an executor sends and receives: from elsewhere, between two executors, over a device
// that the host cannot touch. The harness is tests/support/engine/executor_rig.hpp.

#include "tests/support/engine/executor_graphs.hpp"

namespace troupe {
namespace {

TEST_CASE_FIXTURE(ReceiveRig, "a value that comes before its step is armed counts") {
  const OpHandle door = client().receivers().at(edge);
  caf::anon_send(door, deliver(9, edge, ints({10, 10})));
  StepPtr step = arm(9);
  CHECK(step->own(true));
  CHECK(same_bits(fetched(step), ints({20, 30})));
  client().release(std::move(step));
}

TEST_CASE_FIXTURE(ReceiveRig, "a step waits for its values and says which") {
  StepPtr step = arm(9);
  CHECK(!step->own(true));
  CHECK(client().waiting_for(9) ==
        std::vector<std::string>{std::string("Receive sent from ") + kOther});
  CHECK(client().waiting_for(10).empty());
  std::thread sending([this] { client().deliver(deliver(9, edge, ints({10, 10}))); });
  CHECK(ends(step));
  sending.join();
  CHECK(same_bits(fetched(step), ints({20, 30})));
  CHECK(client().waiting_for(9).empty());
  client().release(std::move(step));
}

TEST_CASE_FIXTURE(ReceiveRig, "a value that comes twice counts once, early or late") {
  for (int i = 0; i < 3; ++i) client().deliver(deliver(9, edge, ints({10, 10})));
  StepPtr step = arm(9);
  for (int i = 0; i < 3; ++i) client().deliver(deliver(9, edge, ints({10, 10})));
  CHECK(step->own(true));
  client().deliver(deliver(9, edge, ints({10, 10})));
  CHECK(step->result().code == Errc::ok);
  CHECK(same_bits(fetched(step), ints({20, 30})));
  client().release(std::move(step));
}

TEST_CASE_FIXTURE(ReceiveRig, "a value of a run that has ended is not another run's") {
  for (const bool whole : {true, false}) {
    const int64_t ended = whole ? 1 : 3, next = ended + 1;
    StepPtr first = arm(ended);
    CHECK(!first->own(true));
    if (whole)
      client().deliver(deliver(ended, edge, ints({10, 10})));
    else
      first->interrupt(Errc::cancelled, "taken back");
    CHECK(ends(first));
    client().release(std::move(first));
    StepPtr second = arm(next);
    CHECK(!second->own(true));
    client().deliver(deliver(ended, edge, ints({1, 1})));
    CHECK(!second->wait(SteadyClock::now()));
    client().deliver(deliver(next, edge, ints({10, 10})));
    CHECK(ends(second));
    CHECK(same_bits(fetched(second), ints({20, 30})));
    client().release(std::move(second));
  }
}

TEST_CASE_FIXTURE(ReceiveRig,
                  "a value of another session, executable, frame or edge is not taken") {
  StepPtr step = arm(9);
  CHECK(!step->own(true));
  Deliver other = deliver(9, edge, ints({1, 1}));
  other.key.executable = kExecutable - 1;
  client().deliver(other);
  other = deliver(9, edge, ints({1, 1}));
  other.key.session = kSession + 1;
  client().deliver(other);
  client().deliver(deliver(9, edge + 50, ints({1, 1})));
  other = deliver(9, edge, ints({1, 1}));
  other.key.frame = 1;
  client().deliver(other);
  other.key.frame = 0;
  other.key.iteration = 1;
  client().deliver(other);
  CHECK(!step->wait(SteadyClock::now()));
  client().deliver(deliver(9, edge, ints({10, 10})));
  CHECK(ends(step));
  CHECK(same_bits(fetched(step), ints({20, 30})));
  client().release(std::move(step));
}

TEST_CASE_FIXTURE(ReceiveRig,
                  "a value that its edge cannot carry ends the step before a kernel reads it") {
  const std::vector<Tensor> wrong = {ints({1, 2, 3}), Tensor::of<int32_t>({1, 2}, {2, 1}),
                                     Tensor::of<float>({1, 2}, {2}), Tensor()};
  for (size_t i = 0; i < wrong.size(); ++i) {
    CAPTURE(i);
    const int64_t run = 20 + static_cast<int64_t>(i);
    StepPtr step = arm(run);
    CHECK(!step->own(true));
    client().deliver(deliver(run, edge, wrong[i]));
    CHECK(ends(step));
    CHECK(step->result().code == Errc::bad_data);
    CHECK_MESSAGE(contains(step->result().text, "but the edge carries i32[2]"),
                  step->result().text);
    client().release(std::move(step));
  }
}

TEST_CASE_FIXTURE(ReceiveRig, "an error instead of a value ends the step with it") {
  StepPtr step = arm(9);
  CHECK(!step->own(true));
  Deliver message = deliver(9, edge, {});
  message.error = Errc::peer_lost;
  message.text = "the sender is gone";
  client().deliver(message);
  CHECK(ends(step));
  CHECK(step->result().code == Errc::peer_lost);
  CHECK(step->result().text == "the sender is gone");
  client().release(std::move(step));
}

TEST_CASE_FIXTURE(ReceiveRig, "a dead value makes its readers dead, and they do not run") {
  StepPtr step = arm(9);
  CHECK(!step->own(true));
  Deliver message = deliver(9, edge, {});
  message.dead = true;
  client().deliver(message);
  CHECK(ends(step));
  // The fetched value was not made.
  CHECK(step->result().code == Errc::invalid_argument);
  CHECK(!fetched(step).defined());
  client().release(std::move(step));
  StepPtr next = arm(10);
  client().deliver(deliver(10, edge, ints({10, 10})));
  CHECK(next->own(true));
  CHECK(same_bits(fetched(next), ints({20, 30})));
  client().release(std::move(next));
}

TEST_CASE_FIXTURE(ReceiveRig, "a cancelled step does not wait for its values") {
  StepPtr step = arm(9);
  CHECK(!step->own(true));
  client().cancel(9, Errc::cancelled, "enough");
  CHECK(ends(step));
  CHECK(step->result().code == Errc::cancelled);
  client().release(std::move(step));
}

TEST_CASE_FIXTURE(ReceiveRig, "values for a run that has ended are dropped") {
  Memory& memory = device(kOther).memory();
  const int64_t before = used_bytes();
  for (int64_t run = 0; run < 2000; ++run) {
    StepPtr step = arm(run);
    CHECK(!step->own(true));
    client().cancel(run, Errc::cancelled, "enough");
    REQUIRE(ends(step));
    client().release(std::move(step));
    client().deliver(deliver(run, edge, memory.make(DType::i32, Shape{2})));
    client().deliver(deliver(run / 2, edge, memory.make(DType::i32, Shape{2})));
  }
  CHECK(used_bytes() == before);
  StepPtr step = arm(2000);
  client().deliver(deliver(2000, edge, ints({10, 10})));
  CHECK(step->own(true));
  client().release(std::move(step));
}

TEST_CASE_FIXTURE(ReceiveRig, "a value waits for its step however many others end meanwhile") {
  client().deliver(deliver(3, edge, ints({10, 10})));
  client().cancel(4, Errc::cancelled, "never mind");
  for (int64_t run = 5; run < 10'000; ++run) {
    client().forget_before(3);
    client().deliver(deliver(run, edge, ints({1, 1})));
    StepPtr step = arm(run);
    REQUIRE(step->own(true));
    client().release(std::move(step));
  }
  StepPtr step = arm(3);
  CHECK(step->own(true));
  CHECK(same_bits(fetched(step), ints({20, 30})));
  client().release(std::move(step));
  StepPtr cancelled = arm(4);
  CHECK(cancelled->own(true));
  CHECK(cancelled->result().text == "never mind");
  client().release(std::move(cancelled));
}

TEST_CASE_FIXTURE(ReceiveRig, "values for runs that never come go when their runs are over") {
  Memory& memory = device(kOther).memory();
  const int64_t before = used_bytes();
  for (int64_t run = 0; run < 3000; ++run)
    client().deliver(deliver(run, edge, memory.make(DType::i32, Shape{2})));
  CHECK(used_bytes() > before);
  client().forget_before(2999);
  CHECK(used_bytes() > before);
  client().forget_before(3000);
  CHECK(used_bytes() == before);
  client().deliver(deliver(2999, edge, memory.make(DType::i32, Shape{2})));
  CHECK(used_bytes() == before);
}

TEST_CASE_FIXTURE(
    ReceiveRig, "a value that comes early when too many wait fails its run with its node's name") {
  const auto limit = static_cast<int64_t>(EarlyValues::Limits().values);
  for (int64_t run = 0; run <= limit; ++run) client().deliver(deliver(run, edge, ints({10, 10})));
  StepPtr step = arm(limit);
  CHECK(step->own(true));
  CHECK(step->result().code == Errc::out_of_memory);
  CHECK_MESSAGE(contains(step->result().text, client().program().nodes.names[receiver]),
                step->result().text);
  client().release(std::move(step));
  StepPtr kept = arm(limit - 1);
  CHECK(kept->own(true));
  CHECK(same_bits(fetched(kept), ints({20, 30})));
  client().release(std::move(kept));
}

// Two executors

TEST_CASE("random graphs on two cpu devices give what plain evaluation gives") {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    ExecutorRig rig(2);
    const Output x = rig.input();
    rig.build(random_graph(rig, {x}, 40, random, {ExecutorRig::kClient, ExecutorRig::kOther}), {x});
    const int64_t before = rig.used_bytes();
    for (int step = 0; step < 4; ++step)
      rig.check_against_plain_evaluation({ints({static_cast<int32_t>(random()), step})});
    CHECK(rig.used_bytes() == before);
  }
}

TEST_CASE_FIXTURE(ReceiveRig, "sent bytes and transfers are counted by edge") {
  for (int i = 0; i < 3; ++i) CHECK(same_bits(run({ints({2, 3})})[0], ints({6, 12})));
  CHECK(executor(1).edge_counts() == std::map<int32_t, EdgeCount>{{edge, {3, 3 * 8}}});
}

TEST_CASE("many steps in flight through two executors keep their values apart") {
  ExecutorRig rig(2);
  const Output x = rig.input();
  const Output there = within(rig.on(ExecutorRig::kOther), [&] {
    return rig.op("AddOne", {rig.op("Later", {rig.op("AddOne", {x})})});
  });
  rig.build({rig.op("Mul", {there, x})}, {x});
  std::vector<std::unique_ptr<ExecutorRig::Run>> steps;
  for (int i = 0; i < 50; ++i) {
    steps.push_back(std::make_unique<ExecutorRig::Run>(rig, i, std::vector<Tensor>{ints({i, -i})}));
    steps.back()->fire();
  }
  std::vector<std::shared_ptr<AsyncContext>> firings;
  for (int i = 0; i < 50; ++i) firings.push_back(knobs().next_later());
  std::shuffle(firings.begin(), firings.end(), std::mt19937(3));
  for (const auto& firing : firings) firing->done({firing->input(0)});
  for (int i = 0; i < 50; ++i) {
    CHECK(steps[static_cast<size_t>(i)]->finish().code == Errc::ok);
    CHECK(same_bits(steps[static_cast<size_t>(i)]->values[0], ints({i * (i + 2), -i * (-i + 2)})));
  }
}

TEST_CASE("a failure in one executor ends the step in the other, and both run the next") {
  ExecutorRig rig(2);
  const Output x = rig.input();
  const Output there =
      within(rig.on(ExecutorRig::kOther), [&] { return rig.op("Flaky", {x}, "luck"); });
  rig.build({rig.op("AddOne", {there})}, {x});
  for (int i = 0; i < 5; ++i) {
    knobs().failures = kKernelRestartsMax + 1;
    rig.run({ints({1, 2})});
    CHECK(rig.last.code == Errc::io);
    CHECK_MESSAGE(contains(rig.last.text, "luck"), rig.last.text);
    CHECK(same_bits(rig.run({ints({1, 2})})[0], ints({6, 11})));
  }
}

// A device that the host cannot touch

TEST_CASE("random graphs on a cpu and a shadow device give what plain evaluation gives") {
  for (uint32_t seed = 1; seed <= 15; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    ExecutorRig rig(2);
    const Output x = rig.input();
    rig.build(random_graph(rig, {x}, 30, random, {ExecutorRig::kClient, ExecutorRig::kShadow}),
              {x});
    const int64_t before = rig.used_bytes();
    for (int step = 0; step < 4; ++step)
      rig.check_against_plain_evaluation({ints({static_cast<int32_t>(random()), step})});
    CHECK(rig.used_bytes() == before);
  }
}

TEST_CASE("a value that leaves is made in the memory of the edge it leaves by, and no other is") {
  for (const int lanes : {1, 2}) {
    CAPTURE(lanes);
    ExecutorRig rig(lanes);
    const Output x = rig.input();
    const Output leaves = rig.op("Mul", {x, x}), stays = rig.op("Mul", {x, x});
    const Output there =
        within(rig.on(ExecutorRig::kShadow), [&] { return rig.op("AddOne", {leaves}); });
    rig.build({rig.op("Add", {stays, there})}, {x});
    const Memory& staging = *rig.device(ExecutorRig::kShadow).staging();
    CHECK(rig.device(ExecutorRig::kClient).staging() == nullptr);
    for (int step = 0; step < 200; ++step)  // timed steps and those on other lanes are among them
      REQUIRE(same_bits(rig.run({ints({2, 3})})[0], ints({9, 19})));
    CHECK(staging.stats().peak_bytes == size_class::block_bytes(size_class::of(8)));
    CHECK(staging.stats().used_bytes == 0);
  }
}

struct ShadowRig : ExecutorRig {
  Output x = input(), there = within(on(kShadow), [&] {
                        return op("AddOne", {op("Flaky", {op("AddOne", {x})}, "luck")});
                      });
  ShadowRig() { build({op("AddOne", {there})}, {x}); }
};

TEST_CASE_FIXTURE(ShadowRig,
                  "a kernel that fails in a device's queue fails the step, and the next one runs") {
  const int64_t before = used_bytes();
  for (int i = 0; i < 5; ++i) {
    knobs().failures = 1;
    run({ints({1, 2})});
    CHECK(last.code == Errc::io);
    CHECK_MESSAGE(contains(last.text, "luck"), last.text);
    CHECK(used_bytes() == before);
    CHECK(same_bits(run({ints({1, 2})})[0], ints({12, 17})));
    CHECK(used_bytes() == before);
  }
}

TEST_CASE(
    "a kernel that fails in a device's queue fails the step even when nobody reads its output") {
  ExecutorRig rig;
  const Output x = rig.input();
  Output there, unread;
  {
    const auto scope = rig.on(ExecutorRig::kShadow);
    there = rig.op("AddOne", {x});
    unread = rig.graph.add({.op = "Flaky", .inputs = {there}, .name = "luck"});
  }
  const Output y =
      rig.graph.add({.op = "AddOne", .inputs = {there}, .control_inputs = {unread.node}});
  rig.build({y}, {x});
  knobs().failures = 1;
  rig.run({ints({1, 2})});
  CHECK(rig.last.code == Errc::io);
  CHECK(same_bits(rig.run({ints({1, 2})})[0], ints({3, 4})));
}

TEST_CASE_FIXTURE(
    ShadowRig,
    "a step on a device is cancelled while it waits for a value, and the next one runs") {
  const int64_t before = used_bytes();
  PartitionExecutor& shadow = executor(1);
  StepPtr step = shadow.begin({.run = 1});
  CHECK(!step->own(true));
  CHECK(shadow.waiting_for(1) ==
        std::vector<std::string>{std::string("Receive x from ") + kClient});
  shadow.cancel(1, Errc::cancelled, "enough");
  REQUIRE(step->wait(SteadyClock::now() + kSoon));
  CHECK(step->result().code == Errc::cancelled);
  shadow.release(std::move(step));
  next_run = 2;
  CHECK(same_bits(run({ints({1, 2})})[0], ints({12, 17})));
  CHECK(used_bytes() == before);
}

}  // namespace
}  // namespace troupe
