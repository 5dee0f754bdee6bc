// Nodes without inputs: Constant, Placeholder and Group, which runs when all of its control inputs
// have run.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase constant_of(std::string name, Tensor value) {
  return Case("Constant", std::move(name), {}, {value}, {{"value", value}});
}

OpCases constants() {
  return table_of(
      "Constant",
      {constant_of("f64", matrix({{1, -2}, {3, 4}})), constant_of("f32", f32(vector({0.5}))),
       constant_of("i64", i64(vector({1, 2}))), constant_of("bool", booleans(scalar(1))),
       constant_of("u8", u8(vector({255}))), constant_of("not finite", vector({NAN, INFINITY})),
       constant_of("empty", zeros({0, 3}))},
      {Refused({}, "needs attribute value, a tensor"),
       Refused({}, "attribute value is an undefined tensor", {{"value", Tensor()}})});
}

OpCases placeholders() {
  return table_of("Placeholder",
                  {Case("fed", {vector({1, 2})}, {vector({1, 2})})
                       .as_typed()
                       .made_by([](Graph&, const std::vector<Output>& in) { return in; })},
                  {Refused({}, "was not fed; pass a f32[2, -1] tensor for it",
                           {{"dtype", DType::f32}, {"shape", Shape{2, -1}}})
                       .made_by([](Graph& graph, const std::vector<Output>&) {
                         const Output x = placeholder(graph, DType::f32, {2, -1});
                         evaluate(x);
                         return std::vector{x};
                       }),
                   Refused({}, "needs attribute dtype, a dtype", {{"shape", Shape{2}}})});
}

OpCases groups() {
  return table_of("Group", {Case("nothing", {}, {})},
                  {Refused({vector({1})}, "wants no inputs, got 1")});
}
const ListedCases listed_constants(constants), listed_placeholders(placeholders),
    listed_groups(groups);

}  // namespace

TEST_CASE("Constant gives its tensor") { check(constants()); }

TEST_CASE("a constant is not copied") {
  Graph graph;
  const Tensor value = vector({1, 2});
  CHECK(evaluate(constant(graph, value)).raw() == value.raw());
}

TEST_CASE("Placeholder is what it is fed") { check(placeholders()); }

TEST_CASE("Group has no inputs and no outputs") { check(groups()); }

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
