// Faults that an executor survives: kernels that throw, op actors that are killed.
// The harness is tests/support/engine/executor_rig.hpp.

#include "tests/support/engine/executor_graphs.hpp"

namespace troupe {
namespace {

TEST_CASE("a kernel that throws up to three times is run again with the same inputs") {
  for (const char* kind : {"error", "int", "memory"})
    for (int failures = 0; failures <= kKernelRestartsMax; ++failures) {
      CAPTURE(kind);
      CAPTURE(failures);
      ExecutorRig rig;
      const Output x = rig.input();
      rig.build({rig.op("AddOne", {rig.op("Flaky", {rig.op("AddOne", {x})}, "luck",
                                          {{"kind", std::string(kind)}})})},
                {x});
      const int64_t before = rig.used_bytes();
      knobs().failures = failures;
      CHECK(same_bits(rig.run({ints({1, 2})})[0], ints({11, 16})));
      CHECK(knobs().flaky_runs == failures + 1);
      CHECK(knobs().flaky_inputs == 2 * (failures + 1));
      CHECK(rig.client().kernel_restarts() == failures);
      CHECK(rig.warnings().size() == static_cast<size_t>(failures));
      CHECK(rig.used_bytes() == before);
    }
}

TEST_CASE(
    "a kernel that throws a fourth time fails the step with its node's name, and the next step "
    "runs") {
  const std::map<std::string, Errc> codes = {
      {"error", Errc::io}, {"int", Errc::kernel_failed}, {"memory", Errc::out_of_memory}};
  for (const auto& entry : codes) {
    const std::string kind = entry.first;
    const Errc code = entry.second;
    CAPTURE(kind);
    ExecutorRig rig;
    const Output x = rig.input();
    rig.build({rig.op("AddOne", {rig.op("Flaky", {x}, "tower0/luck", {{"kind", kind}})})}, {x});
    knobs().failures = kKernelRestartsMax + 1;
    rig.run({ints({1, 2})});
    CHECK(rig.last.code == code);
    CHECK_MESSAGE(contains(rig.last.text, "tower0/luck"), rig.last.text);
    CHECK_MESSAGE(contains(rig.last.text, ExecutorRig::kClient), rig.last.text);
    CHECK(knobs().flaky_runs == kKernelRestartsMax + 1);
    CHECK(same_bits(rig.run({ints({1, 2})})[0], ints({6, 11})));
  }
}

TEST_CASE("a kernel that refuses its inputs is not asked again") {
  ExecutorRig rig;
  const Output x = rig.input();
  rig.build({rig.op("Flaky", {x}, "luck", {{"kind", std::string("refusal")}})}, {x});
  knobs().failures = 1;
  rig.run({ints({1, 2})});
  CHECK(rig.last.code == Errc::invalid_argument);
  CHECK_MESSAGE(contains(rig.last.text, "node luck on"), rig.last.text);
  CHECK(knobs().flaky_runs == 1);
  CHECK(same_bits(rig.run({ints({1, 2})})[0], ints({5, 10})));
}

TEST_CASE("failures are counted by node and by step") {
  ExecutorRig rig;
  const Output x = rig.input();
  rig.build({rig.op("Flaky", {rig.op("Flaky", {x}, "first")}, "second")}, {x});
  for (int step = 0; step < 2; ++step) {
    {
      std::lock_guard lock(knobs().mutex);
      knobs().failures_of = {{"first", kKernelRestartsMax}, {"second", kKernelRestartsMax}};
    }
    CHECK(same_bits(rig.run({ints({1, 2})})[0], ints({25, 50})));
  }
  {
    std::lock_guard lock(knobs().mutex);
    knobs().failures_of = {{"first", kKernelRestartsMax}, {"second", kKernelRestartsMax + 1}};
  }
  rig.run({ints({1, 2})});
  CHECK_MESSAGE(contains(rig.last.text, "node second on"), rig.last.text);
}

// Op actors

TEST_CASE_FIXTURE(ReceiveRig,
                  "a killed op actor is made anew under its old id, and no step notices") {
  const OpHandle door = client().receivers().at(edge);
  caf::scoped_actor watcher(system());
  watcher->monitor(door);
  StepPtr step = arm(9);
  CHECK(!step->own(true));
  caf::anon_send_exit(door, caf::exit_reason::kill);
  watcher->receive([&](const caf::down_msg& m) { CHECK(m.source == door.address()); },
                   caf::after(kSoon) >> [] { FAIL("no down message"); });
  const OpHandle again = client().receivers().at(edge);
  CHECK(again.id() == door.id());
  CHECK(caf::actor_cast<caf::actor_control_block*>(again) !=
        caf::actor_cast<caf::actor_control_block*>(door));
  CHECK(client().op_restarts() == 1);
  CHECK(replaced() == std::vector<caf::actor_id>{door.id()});
  REQUIRE(warnings().size() == 1);
  CHECK_MESSAGE(contains(warnings()[0], client().program().nodes.names[receiver]), warnings()[0]);

  SUBCASE("its old handle still works") { caf::anon_send(door, deliver(9, edge, ints({10, 10}))); }
  SUBCASE("its new handle works") { caf::anon_send(again, deliver(9, edge, ints({10, 10}))); }
  SUBCASE("a second kill of the dead one changes nothing") {
    caf::anon_send_exit(door, caf::exit_reason::kill);
    CHECK(client().op_restarts() == 1);
    caf::anon_send(again, deliver(9, edge, ints({10, 10})));
  }
  SUBCASE("the new one can be killed, too") {
    caf::anon_send_exit(again, caf::exit_reason::kill);
    CHECK(client().op_restarts() == 2);
    CHECK(client().receivers().at(edge).id() == door.id());
    caf::anon_send(client().receivers().at(edge), deliver(9, edge, ints({10, 10})));
  }
  CHECK(ends(step));
  CHECK(same_bits(fetched(step), ints({20, 30})));
  client().release(std::move(step));
}

TEST_CASE_FIXTURE(ReceiveRig, "any op actor may be killed while steps run in both executors") {
  for (int i = 0; i < 50; ++i) {
    PartitionExecutor& victim = executor(static_cast<size_t>(i % 2));
    Run step(*this, next_run++, {ints({2, 3})});
    step.fire();
    caf::anon_send_exit(victim.op_actor(static_cast<uint32_t>(i / 2) %
                                        static_cast<uint32_t>(victim.program().nodes.names.size())),
                        caf::exit_reason::kill);
    CHECK(step.finish().code == Errc::ok);
    CHECK(same_bits(step.values[0], ints({6, 12})));
  }
  CHECK(executor(0).op_restarts() + executor(1).op_restarts() == 50);
}

TEST_CASE_FIXTURE(
    ReceiveRig,
    "who monitors an op actor hears of its executor's end, and values for it are dropped") {
  const OpHandle door = client().receivers().at(edge);
  caf::scoped_actor watcher(system());
  watcher->monitor(door);
  executors.clear();
  watcher->receive([&](const caf::down_msg& m) { CHECK(m.source == door.address()); },
                   caf::after(kSoon) >> [] { FAIL("no down message"); });
  caf::anon_send(door, deliver(9, edge, ints({10, 10})));
}

}  // namespace
}  // namespace troupe
