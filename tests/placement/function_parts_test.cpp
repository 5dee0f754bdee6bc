// The partitions of functions that are called: each body is a partition of its own, on its caller's
// device, and passes leave it whole.

#include <algorithm>

#include "graph/op.hpp"
#include "graph/prune.hpp"
#include "placement/call_graph.hpp"
#include "placement/partition.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

using Values = std::vector<Output>;
const std::string kHere = "/job:local/task:0/device:cpu:0";
const std::string kThere = "/job:local/task:0/device:cpu:1";

// Two functions that call each other, one with a loop; the program calls them once.
struct Program {
  Graph graph;
  Output n, y;
  Program() {
    const TensorType count{DType::i64, Shape{}};
    n = placeholder(graph, DType::i64, {}, "n");
    const Output zero = fill(graph, {}, 0, DType::i64), c = placeholder(graph, DType::i64, {}, "c");
    Function even = declare_function(graph, "even", {count}, {count});
    Function odd = declare_function(graph, "odd", {count}, {count});
    even.define([&](const Values& k) {
      return Values{cond(
          equal(k[0], zero), [&] { return c; }, [&] { return odd({k[0] - 1})[0]; })};
    });
    odd.define([&](const Values& k) {
      const Values half = while_loop([&](const Values& v) { return less(v[0], k[0]); },
                                     [&](const Values& v) { return Values{v[0] + c}; }, {zero});
      return even({half[0] - 1});
    });
    y = even({n})[0];
  }
  std::vector<Partition> parts(const std::string& of_calls) const {
    const Output fetch{const_cast<Graph*>(&graph), y.node, 0};
    std::map<int32_t, std::string> devices;
    for (int32_t id : prune(graph, {fetch}))
      devices[id] = graph.node(id).op->control == ControlKind::call ? of_calls : kHere;
    return partition(graph, {fetch}, {n, graph.output("c")}, devices, kHere);
  }
};

}  // namespace

TEST_CASE(
    "each body is a partition without edges, which takes arguments and gives what it returns") {
  const Program p;
  const std::vector<Partition> parts = p.parts(kHere);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].function == -1);
  REQUIRE(parts[0].functions.size() == 2);
  for (const Partition& body : parts[0].functions) {
    CHECK(body.device == kHere);
    CHECK(p.graph.node(body.function).op->name == "Function");
    CHECK(body.edges.empty());
    CHECK(body.functions.empty());
    CHECK(body.nodes.back().kind == PartKind::fetch);
    CHECK(std::count_if(body.nodes.begin(), body.nodes.end(), [](const PartNode& node) {
            return node.kind == PartKind::feed;
          }) == 3);  // the argument, and c and zero, which lie outside the functions
  }
  CHECK(parts[0].functions[1].loops.size() == 1);
  has(to_text(p.graph, parts), "function even_1 on " + kHere + "\n  0 feed ");
}

TEST_CASE("a call that stands elsewhere than its function is refused") {
  const Program p;
  check_invalid([&] { p.parts(kThere); },
                "a function that is called, its body and its calls stand on one device");
}

TEST_CASE("passes keep what calls need, and can be read and written again") {
  Program p;
  for (const PassResult& result : explain_passes(p.graph, {p.y}, {p.n, p.graph.output("c")})) {
    CAPTURE(result.pass);
    const auto read = graph_from_text(result.graph);
    CHECK(to_text(*read) == result.graph);
    const auto calls = std::count_if(read->nodes().begin(), read->nodes().end(), [](const auto& n) {
      return n->op->control == ControlKind::call;
    });
    CHECK(calls == 3);
    CHECK(prune(*read, {read->output(p.y.name())}).size() == read->nodes().size());
  }
}

}  // namespace troupe
