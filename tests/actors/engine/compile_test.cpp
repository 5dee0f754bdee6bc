// The tables of a compiled partition: a Program is a plain value, so nothing runs here.
#include <algorithm>

#include "actors/engine/program/compile.hpp"
#include "tests/support/engine/executor_graphs.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

constexpr const char* kHere = ExecutorRig::kClient;
constexpr const char* kThere = ExecutorRig::kOther;

struct CompileRig {
  Output input(std::string_view name) {
    return graph->add({"In", {}, {{"shape", Shape{2}}}, name});
  }
  Output op(std::string_view kind, std::vector<Output> inputs, std::string_view name = {},
            Attrs attrs = {}) {
    return graph->add({kind, std::move(inputs), std::move(attrs), name});
  }
  // The program of each device, the client's first.
  std::vector<Program> compile_for(const std::vector<Output>& fetches,
                                   const std::vector<Output>& feeds) {
    std::map<int32_t, std::string> device_of;
    for (int32_t id : prune(*graph, fetches, feeds))
      device_of[id] = graph->node(id).device.empty() ? kHere : graph->node(id).device;
    std::vector<Program> out;
    for (Partition& part : partition(*graph, fetches, feeds, device_of, kHere))
      out.push_back(compile(graph, std::move(part), {.device = device.get()}));
    return out;
  }

  std::shared_ptr<Graph> graph = std::make_shared<Graph>(engine_ops());
  std::unique_ptr<Device> device = make_cpu_device(kHere, 1 << 26);
  CompileRig() { knobs_now = std::make_unique<Knobs>(); }
};

std::vector<uint32_t> list(const uint32_t* begin, uint32_t count) { return {begin, begin + count}; }

TEST_CASE_FIXTURE(CompileRig, "nodes are numbered in firing order and know their readers") {
  const Output x = input("x"), a = op("AddOne", {x}, "a"), b = op("Mul", {a, x}, "b");
  const Program program = std::move(compile_for({b}, {x})[0]);
  CHECK(program.nodes.names == std::vector<std::string>{"Feed x", "a", "b"});
  CHECK(program.initial.missing == std::vector<int32_t>{0, 1, 2});
  CHECK(program.initial.first_ready == std::vector<uint32_t>{0});
  const FiringNode& feed = program.nodes.firing[0];
  CHECK(feed.kind == NodeKind::source);
  CHECK(list(program.readers_of(feed), feed.n_to) == std::vector<uint32_t>{2, 1});
  const FiringNode& mul = program.nodes.firing[2];
  CHECK(mul.kind == NodeKind::plain);
  CHECK(list(program.inputs_of(mul), mul.n_in) ==
        std::vector<uint32_t>{program.slot_of(a.node, 0), program.slot_of(x.node, 0)});
  CHECK(program.place_of(1) == std::string("node a on ") + kHere);
}

TEST_CASE_FIXTURE(CompileRig, "a slot counts its readers, and a fetched one is kept") {
  const Output x = input("x"), a = op("AddOne", {x}), b = op("Mul", {a, x}), c = op("Add", {a, b});
  const Program program = std::move(compile_for({a, c}, {x})[0]);
  const auto uses = [&](const Output& o) {
    return program.initial.uses[program.slot_of(o.node, o.index)];
  };
  CHECK(uses(x) == 2);
  CHECK(uses(a) == 3);
  CHECK(uses(b) == 1);
  CHECK(uses(c) == 1);
  CHECK(program.interface.kept ==
        std::vector<uint32_t>{program.slot_of(a.node, 0), program.slot_of(c.node, 0)});
  CHECK(program.source_slot(x.node, 0) == program.slot_of(x.node, 0));
  CHECK(program.source_slot(a.node, 0) == kNone);
  CHECK(program.slot_of(99, 0) == kNone);
}

TEST_CASE_FIXTURE(CompileRig, "a constant has run when the program is there, and is not counted") {
  const Output x = input("x"), one = op("Const", {}, "one", {{"value", ints({3, 4})}});
  const Output y = op("Add", {x, one});
  const Program program = std::move(compile_for({y}, {x})[0]);
  CHECK(knobs().constants == 1);
  CHECK(program.nodes.firing.size() == 2);
  const uint32_t slot = program.slot_of(one.node, 0);
  CHECK(same_bits(program.initial.values[slot], ints({3, 4})));
  CHECK(program.initial.uses[slot] >= kUncounted);
  CHECK(!program.initial.values[program.slot_of(y.node, 0)].defined());
}

TEST_CASE_FIXTURE(CompileRig, "lists of more than four stand in a table of the program") {
  const Output x = input("x");
  const Output y = op("Join", {x, x, x, x, x, x});
  std::vector<Output> fetches{y};
  for (int i = 0; i < 6; ++i) fetches.push_back(op("AddOne", {x}));
  const Program program = std::move(compile_for(fetches, {x})[0]);
  const FiringNode &feed = program.nodes.firing[0], &join = program.nodes.firing[1];
  const uint32_t slot = program.slot_of(x.node, 0);
  REQUIRE(join.n_in == 6);
  CHECK(list(program.inputs_of(join), 6) == std::vector<uint32_t>(6, slot));
  CHECK(list(program.readers_of(feed), feed.n_to) == std::vector<uint32_t>{7, 6, 5, 4, 3, 2, 1});
  CHECK(program.nodes.lists.size() == 6 + 7);
}

TEST_CASE_FIXTURE(CompileRig, "edges: sends know their slot, receives their node") {
  const Output x = input("x");
  const Output there =
      within(graph->scope({.device = kThere}), [&] { return op("AddOne", {x}, "there"); });
  const Output y = op("Add", {there, x});
  std::vector<Program> programs = compile_for({y}, {x});
  REQUIRE(programs.size() == 2);
  const Program &here = programs[0], &other = programs[1];
  REQUIRE(here.edges.sends.size() == 1);
  CHECK(here.edges.sends[0].slot == here.slot_of(x.node, 0));
  CHECK(!here.edges.sends[0].control);
  REQUIRE(here.edges.receives.size() == 1);
  CHECK(here.edges.awaited == 1);
  CHECK(here.waits());
  CHECK(here.nodes.names[here.edges.receives[0].node] ==
        std::string("Receive there from ") + kThere);
  const int32_t edge = here.edges.sends[0].edge;
  CHECK(other.receive_of(edge) == 0);
  CHECK(here.receive_of(edge) == kNone);
  // Its tables point to each other, and a program may still move.
  const Program moved = std::move(programs[1]);
  CHECK(moved.edges.receives[0].edge->destination == kThere);
  CHECK(moved.nodes.firing[1].view()->node->name == "there");
}

TEST_CASE_FIXTURE(CompileRig, "the same partition gives the same program") {
  std::mt19937 random(11);
  std::vector<Output> values{input("x")};
  for (int i = 0; i < 60; ++i)
    values.push_back(op(i % 3 ? "Add" : "Mul",
                        {values[random() % values.size()], values[random() % values.size()]}));
  const Program a = std::move(compile_for({values.back(), values[20]}, {values[0]})[0]);
  const Program b = std::move(compile_for({values.back(), values[20]}, {values[0]})[0]);
  CHECK(a.nodes.names == b.nodes.names);
  CHECK(a.nodes.lists == b.nodes.lists);
  CHECK(a.nodes.roles == b.nodes.roles);
  CHECK(a.initial.missing == b.initial.missing);
  CHECK(a.initial.uses == b.initial.uses);
  CHECK(a.initial.first_ready == b.initial.first_ready);
  CHECK(a.interface.slots == b.interface.slots);
  CHECK(a.interface.kept == b.interface.kept);
}

TEST_CASE_FIXTURE(CompileRig, "the body of a loop is a program of its own, and the loop a node") {
  const Output n = graph->add({"In", {}, {{"shape", Shape{}}}, "n"});
  const Output zero = graph->add({"In", {}, {{"shape", Shape{}}}, "zero"});
  const std::vector<Output> end = while_loop(
      [&](const std::vector<Output>& v) {
        return op("Less", {v[0], n});
      },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{op("AddOne", {v[0]}), op("AddOne", {v[1]}, "inner")};
      },
      {zero, zero});
  const Program program = std::move(compile_for({end[1]}, {n, zero})[0]);
  REQUIRE(program.loops.size() == 1);
  const Program::Loop& loop = program.loops[0];
  CHECK(loop.home);
  CHECK(program.nodes.firing[loop.driver].kind == NodeKind::loop);
  CHECK(program.nodes.roles[loop.driver] == 0);
  REQUIRE(program.bodies.size() == 1);
  const Program& body = program.bodies[loop.body];
  CHECK(body.nodes.firing[loop.end].kind == NodeKind::end);
  CHECK(loop.end + 1 == body.nodes.firing.size());
  const auto has_inner = [](const Program& p) {
    const std::vector<std::string>& names = p.nodes.names;
    return std::find(names.begin(), names.end(), "while/body/inner") != names.end();
  };
  CHECK(has_inner(body));
  CHECK_FALSE(has_inner(program));
  CHECK(loop.captured.size() == 1);
  REQUIRE(loop.variables.initial.size() == 2);
  for (const auto& [from, to] : loop.variables.initial) {
    CHECK(from == program.slot_of(zero.node, 0));
    CHECK(to < body.initial.values.size());
  }
  CHECK(body.initial.uses[loop.captured[0].second] >= kUncounted);
  CHECK(!body.initial.first_ready.empty());
}

TEST_CASE_FIXTURE(CompileRig, "a loop in a loop is a node of the body around it") {
  const Output n = graph->add({"In", {}, {{"shape", Shape{}}}, "n"});
  const auto below_n = [&](const std::vector<Output>& v) { return op("Less", {v[0], n}); };
  const std::vector<Output> end =
      while_loop(below_n,
                 [&](const std::vector<Output>& v) {
                   const auto add_one = [&](const std::vector<Output>& u) {
                     return std::vector<Output>{op("AddOne", {u[0]})};
                   };
                   return while_loop(below_n, add_one, {v[0]});
                 },
                 {n});
  const Program program = std::move(compile_for({end[0]}, {n})[0]);
  REQUIRE(program.loops.size() == 2);
  REQUIRE(program.bodies.size() == 2);
  const Program &outer = program.bodies[0], &inner = program.bodies[1];
  CHECK(outer.nodes.firing[program.loops[1].driver].kind == NodeKind::loop);
  CHECK(outer.nodes.roles[program.loops[1].driver] == 1);
  CHECK(inner.nodes.firing[program.loops[1].end].kind == NodeKind::end);
  CHECK(outer.bodies.empty());
}

TEST_CASE_FIXTURE(CompileRig, "a node that answers later makes its step wait") {
  const Output x = input("x"), y = op("Later", {x}), z = op("AddOne", {x});
  CHECK(compile_for({y}, {x})[0].waits());
  CHECK(!compile_for({z}, {x})[0].waits());
}

}  // namespace
}  // namespace troupe
