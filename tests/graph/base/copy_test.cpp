// copy_of: a graph of its own with selected nodes.
#include <doctest/doctest.h>

#include "graph/graph_state.hpp"
#include "tests/support/engine/toy_ops.hpp"

using namespace troupe;

TEST_CASE("a copy has the nodes of now, refers to itself, and does not grow with the original") {
  Graph graph(toy_ops());
  const Output a = source(graph, "a", {2, 3}), b = source(graph, "b", {3, 4});
  const Output c = apply(graph, "MatMul", {a, b}, "c");
  const std::string before = to_text(graph);
  const auto copy = copy_of(graph, {a.node, b.node, c.node});
  apply(graph, "MatMul", {a, b}, "later");
  CHECK(to_text(*copy) == before);
  CHECK(copy->find("later") == nullptr);
  CHECK(copy->node(c.node).inputs[0].graph == copy.get());
  CHECK(copy->node(c.node).op == graph.node(c.node).op);
  CHECK(apply(*copy, "MatMul", {copy->output("a"), copy->output("b")}, "c").name() == "c_1");
}

TEST_CASE("a copy of some nodes numbers them anew, and refuses one without what it reads") {
  Graph graph(toy_ops());
  const Output a = source(graph, "a"), unread = source(graph, "b");
  const Output c = apply(graph, "Add", {a, a}, "c");
  const Output d =
      graph.add({.op = "Stop", .inputs = {c}, .name = "d", .control_inputs = {a.node}});
  const auto copy = copy_of(graph, {a.node, c.node, d.node});
  CHECK(copy->nodes().size() == 3);
  CHECK(copy->find("b") == nullptr);
  CHECK(copy->find("d")->id == 2);
  CHECK(same_outputs(copy->find("d")->inputs, {copy->output("c")}));
  CHECK(copy->find("d")->control_inputs == std::vector<int32_t>{0});
  CHECK_THROWS_WITH_AS(copy_of(graph, {a.node, d.node}),
                       doctest::Contains("c made at train.cpp:42"), InternalError);
  CHECK(unread.node == 1);
}
