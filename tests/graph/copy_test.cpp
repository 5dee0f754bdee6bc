// Graph::copy: the nodes of now, on their own.
#include <doctest/doctest.h>

#include "tests/support/toy_ops.hpp"
#include "troupe/graph.hpp"

using namespace troupe;

TEST_CASE("a copy has the nodes of now, refers to itself, and does not grow with the original") {
  Graph graph(toy_ops());
  const Output a = source(graph, "a", {2, 3}), b = source(graph, "b", {3, 4});
  const Output c = apply(graph, "MatMul", {a, b}, "c");
  const std::string before = to_text(graph);
  const auto copy = graph.copy();
  apply(graph, "MatMul", {a, b}, "later");
  CHECK(to_text(*copy) == before);
  CHECK(copy->find("later") == nullptr);
  CHECK(copy->node(c.node).inputs[0].graph == copy.get());
  CHECK(copy->node(c.node).op == graph.node(c.node).op);
  CHECK(apply(*copy, "MatMul", {copy->output("a"), copy->output("b")}, "c").name() == "c_1");
}
