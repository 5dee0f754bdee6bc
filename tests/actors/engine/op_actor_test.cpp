// OpActor: other code by message, the description of its code, and code that is made anew.
#include "tests/support/engine/executor_rig.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

std::atomic<int> prepared{0};

// y = x + 1, by a kernel that counts how often it is prepared.
std::shared_ptr<const Op> counting_add_one() {
  auto op = std::make_shared<Op>(engine_ops()->get("AddOne"));
  op->kernels[0].prepare = [](const Node&) -> std::unique_ptr<KernelState> {
    ++prepared;
    return std::make_unique<KernelState>();
  };
  return op;
}

// y = AddOne(x) at node "a".
struct OpRig {
  OpRig() {
    const Output x = rig.input();
    rig.build({rig.op("AddOne", {x}, "a")}, {x});
  }
  caf::actor_system& system() { return rig.system(); }
  OpHandle actor() { return rig.client().op_actor("a"); }
  Tensor step() { return rig.run({ints({1, 2})})[0]; }
  // Empty if the actor agreed.
  std::string become(const BecomeOp& message) {
    std::string refusal;
    caf::scoped_actor self(system());
    self->request(actor(), 5s, message)
        .receive([&](const Became& m) { CHECK(m.executors == 1); },
                 [&](const caf::error& error) { refusal = from_caf(error).second; });
    return refusal;
  }
  ExecutorRig rig;
};

}  // namespace

TEST_CASE_FIXTURE(OpRig, "an op actor says which code it owns") {
  OpDescription said;
  caf::scoped_actor self(system());
  self->request(actor(), 5s, DescribeOp{})
      .receive([&](const OpDescription& m) { said = m; },
               [&](const caf::error& error) { FAIL(from_caf(error).second); });
  CHECK(said.node == "a");
  CHECK(said.op == "AddOne");
  CHECK(said.device == ExecutorRig::kClient);
  CHECK(said.dtype == "i32");
}

TEST_CASE_FIXTURE(OpRig, "a node fires the op that its actor was told to become") {
  CHECK(same_bits(step(), ints({2, 3})));
  CHECK(become({"a", "Reverse"}) == "");
  CHECK(same_bits(step(), ints({2, 1})));
  CHECK(become({"a", "AddOne"}) == "");
  CHECK(same_bits(step(), ints({2, 3})));
}

TEST_CASE_FIXTURE(OpRig, "an op that does not fit is refused, and the node fires as before") {
  CHECK(become({"a", "Add"}).find("2 inputs and 1 outputs instead of 1 and 1") !=
        std::string::npos);
  CHECK(become({"a", "Reverze"}).find("did you mean Reverse") != std::string::npos);
  CHECK(same_bits(step(), ints({2, 3})));
}

TEST_CASE_FIXTURE(OpRig, "the code of a killed op actor is prepared again, with the op it became") {
  prepared = 0;
  CHECK(become({"a", "AddOne", counting_add_one()}) == "");
  CHECK(prepared == 1);
  const OpHandle before = actor();
  for (int kills = 1; kills < 4; ++kills) {
    caf::anon_send_exit(actor(), caf::exit_reason::kill);
    CHECK(prepared == 1 + kills);
    CHECK(actor().id() == before.id());
    CHECK(same_bits(step(), ints({2, 3})));
  }
  caf::scoped_actor self(system());
  self->request(before, 5s, BecomeOp{"a", "Reverse"})
      .receive([](const Became&) { FAIL("a dead actor agreed"); },
               [](const caf::error& error) { CHECK(from_caf(error).first == Errc::stale); });
}

}  // namespace troupe
