// Kernels that finish later: how steps wait for them, and how such steps are cancelled.
// The harness is tests/support/engine/executor_rig.hpp.

#include "tests/support/engine/executor_graphs.hpp"

namespace troupe {
namespace {

TEST_CASE_FIXTURE(LaterRig,
                  "an async kernel may answer from another thread while the caller sleeps") {
  Run step(*this, 1, {ints({3, 4})});
  step.fire();
  std::thread answering([firing = knobs().next_later()] { firing->done({ints({10, 20})}); });
  CHECK(step.finish().code == Errc::ok);
  answering.join();
  CHECK(same_bits(step.values[0], ints({11, 21})));
}

TEST_CASE_FIXTURE(LaterRig, "an async kernel that answers twice counts once") {
  Run step(*this, 1, {ints({3, 4})});
  step.fire();
  const auto firing = knobs().next_later();
  firing->done({ints({10, 20})});
  firing->done({ints({0, 0})});
  firing->fail(Errc::internal, "never heard");
  CHECK(step.finish().code == Errc::ok);
  CHECK(same_bits(step.values[0], ints({11, 21})));
  Run next(*this, 2, {ints({3, 4})});
  next.fire();
  firing->done({ints({0, 0})});
  CHECK(client().waiting_for(2) == std::vector<std::string>{"fc1/pull"});
  knobs().next_later()->done({ints({1, 1})});
  CHECK(next.finish().code == Errc::ok);
  CHECK(same_bits(next.values[0], ints({2, 2})));
}

TEST_CASE_FIXTURE(LaterRig,
                  "an async kernel that fails fails the step with its code, node and text") {
  Run step(*this, 1, {ints({3, 4})});
  step.fire();
  knobs().next_later()->fail(Errc::peer_lost, "shard 3 is gone");
  const StepResult result = step.finish();
  CHECK(result.code == Errc::peer_lost);
  CHECK_MESSAGE(contains(result.text, "fc1/pull"), result.text);
  CHECK_MESSAGE(contains(result.text, "shard 3 is gone"), result.text);
}

TEST_CASE_FIXTURE(LaterRig,
                  "an async kernel that leaves an output out, or gives another one, fails the step "
                  "with its node's name") {
  for (const std::vector<Tensor>& outputs :
       {std::vector<Tensor>{}, std::vector<Tensor>{Tensor{}}, std::vector<Tensor>{ints({1, 2, 3})},
        std::vector<Tensor>{Tensor::of<float>({1, 2}, {2})}}) {
    Run step(*this, next_run++, {ints({3, 4})});
    step.fire();
    knobs().next_later()->done(outputs);
    const StepResult result = step.finish();
    CHECK(result.code == Errc::kernel_failed);
    CHECK_MESSAGE(contains(result.text, "fc1/pull"), result.text);
  }
}

TEST_CASE("an async kernel that cannot start fails the step with its node's name") {
  ExecutorRig rig;
  const Output x = rig.input();
  rig.build({rig.op("NoStart", {x}, "pull")}, {x});
  rig.run({ints({1, 2})});
  CHECK(rig.last.code == Errc::stale);
  CHECK_MESSAGE(contains(rig.last.text, "cannot start pull"), rig.last.text);
}

TEST_CASE_FIXTURE(
    LaterRig, "a cancelled step does not wait for async kernels, and a late answer is ignored") {
  const int64_t before = used_bytes();
  Run step(*this, 1, {ints({3, 4})});
  step.fire();
  const auto firing = knobs().next_later();
  std::thread cancelling([this] { client().cancel(1, Errc::cancelled, "enough"); });
  const StepResult result = step.finish();
  cancelling.join();
  CHECK(result.code == Errc::cancelled);
  CHECK(result.text == "enough");
  CHECK(used_bytes() == before);
  // The step is in use again when the answer to the old firing comes.
  Run next(*this, 2, {ints({5, 6})});
  next.fire();
  firing->done({ints({0, 0})});
  knobs().next_later()->done({ints({7, 8})});
  CHECK(next.finish().code == Errc::ok);
  CHECK(same_bits(next.values[0], ints({8, 9})));
}

TEST_CASE_FIXTURE(LaterRig,
                  "a cancelled step ends once however its kernel's answer and the cancel race") {
  for (int i = 0; i < 300; ++i) {
    Run step(*this, next_run, {ints({3, 4})});
    step.fire();
    std::thread cancelling([this] { client().cancel(next_run, Errc::cancelled, "enough"); });
    knobs().next_later()->done({ints({1, 2})});
    const StepResult result = step.finish();
    cancelling.join();
    CHECK((result.code == Errc::ok || result.code == Errc::cancelled));
    if (result.code == Errc::ok) CHECK(same_bits(step.values[0], ints({2, 3})));
    ++next_run;
  }
  CHECK(client().running() == 0);
}

TEST_CASE_FIXTURE(LaterRig,
                  "a run that is cancelled before it is armed ends as soon as it is armed") {
  client().cancel(5, Errc::cancelled, "never mind");
  Run step(*this, 5, {ints({3, 4})});
  step.fire();
  const StepResult result = step.finish();
  CHECK(result.code == Errc::cancelled);
  CHECK(result.text == "never mind");
  client().cancel(5, Errc::cancelled, "again");  // it has ended: nobody cares
  Run next(*this, 6, {ints({3, 4})});
  next.fire();
  knobs().next_later()->done({ints({1, 2})});
  CHECK(next.finish().code == Errc::ok);
}

TEST_CASE_FIXTURE(LaterRig, "all running steps end when all are cancelled") {
  std::vector<std::unique_ptr<Run>> steps;
  for (int i = 0; i < 10; ++i) {
    steps.push_back(std::make_unique<Run>(*this, i, std::vector<Tensor>{ints({i, i})}));
    steps.back()->fire();
  }
  client().cancel_all(Errc::peer_lost, "the session has ended");
  for (const auto& step : steps) CHECK(step->finish().code == Errc::peer_lost);
}

TEST_CASE_FIXTURE(LaterRig, "a deadline wakes the caller, who may then end the step") {
  Run step(*this, 1, {ints({3, 4})});
  step.fire();
  CHECK(!step.client().wait(SteadyClock::now()));
  CHECK(step.client().waiting_for() == std::vector<std::string>{"fc1/pull"});
  step.client().interrupt(Errc::timeout, "too slow");
  const StepResult result = step.finish();
  CHECK(result.code == Errc::timeout);
  CHECK(result.text == "too slow");
}

TEST_CASE_FIXTURE(LaterRig, "the first reason to end a step is the one it reports") {
  Run step(*this, 1, {ints({3, 4})});
  step.fire();
  step.client().interrupt(Errc::timeout, "first");
  step.client().interrupt(Errc::cancelled, "second");
  CHECK(step.finish().text == "first");
}

TEST_CASE("a firing may speak of its node when its step and its executor are gone") {
  ExecutorRig rig;
  auto graph = std::make_shared<Graph>(engine_ops());
  const std::weak_ptr<Graph> watched = graph;
  const Output x = graph->add({"In", {}, {{"shape", Shape{2}}}, "x"});
  const Output y = graph->add({"Later", {x}, {}, "fc1/pull"});
  const std::map<int32_t, std::string> devices = {{x.node, ExecutorRig::kClient},
                                                  {y.node, ExecutorRig::kClient}};
  ExecutorHost host{.system = &rig.system(), .device = &rig.device(ExecutorRig::kClient)};
  auto executor = PartitionExecutor::make(
      1, 1, graph, partition(*graph, {y}, {x}, devices, ExecutorRig::kClient)[0], std::move(host));
  StepPtr step = executor->begin({.run = 1});
  step->set_source(executor->program().source_slot(x.node, 0), ints({1, 2}));
  CHECK(!step->own(true));
  auto firing = knobs().next_later();
  executor->cancel(1, Errc::cancelled, "enough");
  CHECK(step->wait(SteadyClock::now() + kSoon));
  executor->release(std::move(step));
  graph.reset();
  executor.reset();
  REQUIRE(!watched.expired());
  CHECK(firing->node().name == "fc1/pull");
  firing->done({ints({1, 2})});
  firing.reset();
  CHECK(watched.expired());
}

}  // namespace
}  // namespace troupe
