// Gather and its gradient.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  const Tensor x = matrix({{1, 2}, {3, 4}, {5, 6}});
  return {
      .values = {{.name = "rows",
                  .op = "Gather",
                  .inputs = {x, i32(vector({2, 0, 2}))},
                  .expected = {matrix({{5, 6}, {1, 2}, {5, 6}})}},
                 {.name = "a matrix of indices",
                  .op = "Gather",
                  .inputs = {vector({10, 20, 30}), i64(matrix({{0, 2}, {1, 1}}))},
                  .expected = {matrix({{10, 30}, {20, 20}})}},
                 {.name = "one index",
                  .op = "Gather",
                  .inputs = {x, i32(scalar(1))},
                  .expected = {vector({3, 4})}},
                 {.name = "rows of f32",
                  .op = "Gather",
                  .inputs = {f32(x), i32(vector({1}))},
                  .expected = {f32(matrix({{3, 4}}))}},
                 {.name = "rows of bool",
                  .op = "Gather",
                  .inputs = {booleans(vector({1, 0})), i64(vector({1, 0, 0}))},
                  .expected = {booleans(vector({0, 1, 1}))}},
                 {.name = "no indices",
                  .op = "Gather",
                  .inputs = {x, zeros({0}, DType::i32)},
                  .expected = {zeros({0, 2})}},
                 {.name = "no indices into no rows",
                  .op = "Gather",
                  .inputs = {zeros({0, 2}), zeros({0}, DType::i32)},
                  .expected = {zeros({0, 2})}},
                 {.name = "empty rows",
                  .op = "Gather",
                  .inputs = {zeros({3, 0}), i32(vector({2}))},
                  .expected = {zeros({1, 0})}},
                 {.name = "sums into rows",
                  .op = "GatherGradient",
                  .inputs = {matrix({{1, 2}, {3, 4}, {5, 6}}), i32(vector({2, 0, 2})),
                             zeros({4, 2})},
                  .expected = {matrix({{3, 4}, {0, 0}, {6, 8}, {0, 0}})}},
                 {.name = "one index",
                  .op = "GatherGradient",
                  .inputs = {scalar(3), i64(scalar(1)), zeros({2})},
                  .expected = {vector({0, 3})}},
                 {.name = "in the order of the indices",
                  .op = "GatherGradient",
                  .inputs = {f32(vector({1e8, 1, -1e8})), i32(vector({0, 0, 0})), f32(zeros({1}))},
                  .expected = {f32(vector({0}))},
                  .tolerance = 0,
                  .as_written = true,
                  .smooth = false},
                 {.name = "no indices",
                  .op = "GatherGradient",
                  .inputs = {zeros({0, 2}), zeros({0}, DType::i32), zeros({3, 2})},
                  .expected = {zeros({3, 2})}}},
      .errors = {
          {.op = "Gather",
           .inputs = {scalar(1), i32(vector({0}))},
           .message = "wants rows to choose from, got a scalar"},
          {.op = "Gather",
           .inputs = {x, vector({0})},
           .message = "wants indices of i32 or i64, got f64; cast them"},
          {.op = "Gather",
           .inputs = {zeros({1, 1, 1, 1, 1, 1}), zeros({1, 1, 1, 1}, DType::i32)},
           .message = "would have more than 8 dimensions"},
          {.op = "GatherGradient",
           .inputs = {zeros({2, 2}), zeros({3}, DType::i32), zeros({4, 2})},
           .message = "dy [2, 2] is not what rows of [4, 2] by indices [3] give"},
          {.op = "GatherGradient",
           .inputs = {zeros({1}), zeros({1}, DType::i32), f32(zeros({4}))},
           .message = "dy and x_like must have one dtype, got f64 and f32"},
      }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Gather copies rows, and its gradient sums into them") { check(cases()); }

TEST_CASE("an index out of range is an error that names index and size") {
  Graph graph;
  const Output x = constant(graph, f32(zeros({3, 2})));
  for (const auto& [indices, text] :
       {std::pair{i32(vector({0, 3})), "index 3 (number 1 of 2) is not in [0, 3)"},
        {i64(vector({-1, 0})), "index -1 (number 0 of 2) is not in [0, 3)"}}) {
    const Output at = constant(graph, indices);
    CHECK_THROWS_WITH_AS(evaluate(gather(x, at)), doctest::Contains(text), Error);
    const Output dy = constant(graph, f32(zeros({2, 2})));
    CHECK_THROWS_WITH_AS(evaluate(gather_gradient(dy, at, x)), doctest::Contains(text), Error);
    CHECK_THROWS_WITH_AS(evaluate(one_hot(at, 3)), doctest::Contains(text), Error);
  }
}

}  // namespace troupe
