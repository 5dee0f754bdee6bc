// BiasAdd: one number for each channel.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table table("BiasAdd adds to every channel its number", [] {
  return table_of(
      "BiasAdd",
      {Case("a matrix", {matrix({{1, 2, 3}, {4, 5, 6}}), vector({10, 20, 30})},
            {matrix({{11, 22, 33}, {14, 25, 36}})}),
       Case("images", {iota({2, 1, 2, 2}), vector({1, -1})},
            {values({2, 1, 2, 2}, {1, 0, 3, 2, 5, 4, 7, 6})}),
       Case("a vector", {vector({1, 2}), vector({3, 4})}, {vector({4, 6})}),
       Case("size one", {matrix({{1}}), vector({2})}, {matrix({{3}})}),
       Case("no rows", {zeros({0, 2}), vector({1, 2})}, {zeros({0, 2})}),
       Case("no channels", {zeros({2, 0}), zeros({0})}, {zeros({2, 0})}),
       Case("i32 wraps around", {i32(vector({2147483647})), i32(vector({1}))},
            {i32(vector({-2147483648.0}))})
           .as_typed()},
      {Refused({zeros({2, 3}), zeros({4})}, "x has 3 channels and the bias 4: [2, 3] plus [4]"),
       Refused({zeros({2, 3}), zeros({1, 3})},
               "wants x [..., channels] and bias [channels], got [2, 3] and [1, 3]")
           .made_by([](Graph& graph, const std::vector<Output>&) {
             return std::vector{
                 bias_add(constant(graph, zeros({2, 3})), constant(graph, zeros({1, 3})))};
           }),
       Refused({zeros({2}), zeros({2}, DType::f32)}, "inputs must have one dtype, got f64 and f32"),
       Refused({booleans(zeros({2})), booleans(zeros({2}))}, "has no kernel for bool")});
});

}  // namespace

TEST_CASE("a bias of unknown size is checked when the step runs") {
  Graph graph;
  const Output x = constant(graph, zeros({2, 3}));
  const Output bias = placeholder(graph, DType::f64, {-1});
  const Output y = bias_add(x, bias);
  CHECK(y.shape() == Shape{2, 3});
  CHECK_THROWS_WITH_AS(evaluate(y, {{bias, zeros({5})}}),
                       doctest::Contains("x has 3 channels and the bias 5: [2, 3] plus [5]"),
                       Error);
}

}  // namespace troupe
