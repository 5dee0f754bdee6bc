// Group: a node that runs when all of its control inputs have run.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of("Group", {Case("nothing", {}, {})},
                  {Refused({vector({1})}, "wants no inputs, got 1")});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Group has no inputs and no outputs") { check(cases()); }

TEST_CASE("group runs after all of its outputs, and can be run after itself") {
  Graph graph;
  const Output a = constant(graph, scalar(1)), b = constant(graph, scalar(2));
  const Output both = group(graph, {a, b}, "both");
  CHECK(graph.node(both.node).name == "both");
  CHECK(graph.node(both.node).outputs.empty());
  CHECK(graph.node(both.node).control_inputs == std::vector<int32_t>{a.node, b.node});
  const Output all = group(graph, {both});
  CHECK(graph.node(all.node).control_inputs == std::vector<int32_t>{both.node});
  CHECK(graph.node(group(graph, {}).node).control_inputs.empty());
}

TEST_CASE("group refuses outputs of nothing and of another graph") {
  Graph graph, other;
  CHECK_THROWS_WITH_AS(group(graph, {Output{}}), doctest::Contains("an output is undefined"),
                       Error);
  CHECK_THROWS_WITH_AS(group(graph, {constant(other, scalar(1))}),
                       doctest::Contains("comes from another graph"), Error);
}

}  // namespace troupe
