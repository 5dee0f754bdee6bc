// Nodes without inputs: Constant, Placeholder and Group, which runs when all of its control inputs
// have run; and CallPath, the number of a call.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase constant_of(std::string name, Tensor value) {
  return Case("Constant", std::move(name), {}, {value}, {{"value", value}});
}

const Table constants("Constant gives its tensor", [] {
  return table_of(
      "Constant",
      {constant_of("f64", matrix({{1, -2}, {3, 4}})), constant_of("f32", f32(vector({0.5}))),
       constant_of("i64", i64(vector({1, 2}))), constant_of("bool", booleans(scalar(1))),
       constant_of("u8", u8(vector({255}))), constant_of("not finite", vector({NAN, INFINITY})),
       constant_of("empty", zeros({0, 3}))},
      {Refused({}, "needs attribute value, a tensor"),
       Refused({}, "attribute value is an undefined tensor", {{"value", Tensor()}})});
});

const Table placeholders("Placeholder is what it is fed", [] {
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
});

const Table groups("Group has no inputs and no outputs", [] {
  return table_of("Group", {Case("nothing", {}, {})},
                  {Refused({vector({1})}, "wants no inputs, got 1")});
});

const Table call_path_table(
    "a call has a number of its own for each place, iteration and call that it is in", [] {
      const Attrs call = {{"key", std::string("call")}};
      const Tensor first = i64(scalar(0)), sixth = i64(scalar(5));
      const auto number = [](int64_t n) { return std::vector<Tensor>{Tensor::scalar(n)}; };
      // Computed independently: fnv1a64("call"), then the recipe of graph/base/philox.hpp.
      return table_of(
          "CallPath",
          {Case("outside of loops", {}, number(-5397992340566858583), call),
           Case("in a loop", {first}, number(195931414451649344), call),
           Case("in a loop in a loop", {first, sixth}, number(-5977810306237012030), call),
           Case("the loops the other way round", {sixth, first}, number(4903505920320817687),
                call)},
          {Refused({i64(vector({1, 2}))},
                   "wants i64 scalars behind its other inputs, the iterations that "
                   "it is in, got i64",
                   call),
           Refused({scalar(1)}, "got f64[]", call)});
    });

}  // namespace

TEST_CASE("a constant is not copied") {
  Graph graph;
  const Tensor value = vector({1, 2});
  CHECK(evaluate(constant(graph, value)).raw() == value.raw());
}

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
