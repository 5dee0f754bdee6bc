// BiasAdd: one number for each channel.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {
      .values = {{.name = "a matrix",
                  .op = "BiasAdd",
                  .inputs = {matrix({{1, 2, 3}, {4, 5, 6}}), vector({10, 20, 30})},
                  .expected = {matrix({{11, 22, 33}, {14, 25, 36}})}},
                 {.name = "images",
                  .op = "BiasAdd",
                  .inputs = {iota({2, 1, 2, 2}), vector({1, -1})},
                  .expected = {values({2, 1, 2, 2}, {1, 0, 3, 2, 5, 4, 7, 6})}},
                 {.name = "a vector",
                  .op = "BiasAdd",
                  .inputs = {vector({1, 2}), vector({3, 4})},
                  .expected = {vector({4, 6})}},
                 {.name = "size one",
                  .op = "BiasAdd",
                  .inputs = {matrix({{1}}), vector({2})},
                  .expected = {matrix({{3}})}},
                 {.name = "no rows",
                  .op = "BiasAdd",
                  .inputs = {zeros({0, 2}), vector({1, 2})},
                  .expected = {zeros({0, 2})}},
                 {.name = "no channels",
                  .op = "BiasAdd",
                  .inputs = {zeros({2, 0}), zeros({0})},
                  .expected = {zeros({2, 0})}},
                 {.name = "i32 wraps around",
                  .op = "BiasAdd",
                  .inputs = {i32(vector({2147483647})), i32(vector({1}))},
                  .expected = {i32(vector({-2147483648.0}))},
                  .as_written = true}},
      .errors = {{.op = "BiasAdd",
                  .inputs = {zeros({2, 3}), zeros({4})},
                  .message = "x has 3 channels and the bias 4: [2, 3] plus [4]"},
                 {.op = "BiasAdd",
                  .inputs = {zeros({2, 3}), zeros({1, 3})},
                  .message = "wants x [..., channels] and bias [channels], got [2, 3] and [1, 3]",
                  .build =
                      [](Graph& graph, const std::vector<Output>&) {
                        return std::vector{bias_add(constant(graph, zeros({2, 3})),
                                                    constant(graph, zeros({1, 3})))};
                      }},
                 {.op = "BiasAdd",
                  .inputs = {zeros({2}), zeros({2}, DType::f32)},
                  .message = "inputs must have one dtype, got f64 and f32"},
                 {.op = "BiasAdd",
                  .inputs = {booleans(zeros({2})), booleans(zeros({2}))},
                  .message = "has no kernel for bool"}}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("BiasAdd adds to every channel its number") { check(cases()); }

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
