// Gather and its gradient.
#include <doctest/doctest.h>

#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  const Tensor x = matrix({{1, 2}, {3, 4}, {5, 6}});
  return table_of(
      "Gather",
      {Case("rows", {x, i32(vector({2, 0, 2}))}, {matrix({{5, 6}, {1, 2}, {5, 6}})}),
       Case("a matrix of indices", {vector({10, 20, 30}), i64(matrix({{0, 2}, {1, 1}}))},
            {matrix({{10, 30}, {20, 20}})}),
       Case("one index", {x, i32(scalar(1))}, {vector({3, 4})}),
       Case("rows of f32", {f32(x), i32(vector({1}))}, {f32(matrix({{3, 4}}))}),
       Case("rows of bool", {booleans(vector({1, 0})), i64(vector({1, 0, 0}))},
            {booleans(vector({0, 1, 1}))}),
       Case("no indices", {x, zeros({0}, DType::i32)}, {zeros({0, 2})}),
       Case("no indices into no rows", {zeros({0, 2}), zeros({0}, DType::i32)}, {zeros({0, 2})}),
       Case("empty rows", {zeros({3, 0}), i32(vector({2}))}, {zeros({1, 0})}),
       Case("GatherGradient", "sums into rows",
            {matrix({{1, 2}, {3, 4}, {5, 6}}), i32(vector({2, 0, 2})), zeros({4, 2})},
            {matrix({{3, 4}, {0, 0}, {6, 8}, {0, 0}})}),
       Case("GatherGradient", "one index", {scalar(3), i64(scalar(1)), zeros({2})},
            {vector({0, 3})}),
       Case("GatherGradient", "in the order of the indices",
            {f32(vector({1e8, 1, -1e8})), i32(vector({0, 0, 0})), f32(zeros({1}))},
            {f32(vector({0}))})
           .within(0)
           .as_typed()
           .rough(),
       Case("GatherGradient", "no indices", {zeros({0, 2}), zeros({0}, DType::i32), zeros({3, 2})},
            {zeros({3, 2})})},
      {
          Refused({scalar(1), i32(vector({0}))}, "wants rows to choose from, got a scalar"),
          Refused({x, vector({0})}, "wants indices of i32 or i64, got f64; cast them"),
          Refused({zeros({1, 1, 1, 1, 1, 1}), zeros({1, 1, 1, 1}, DType::i32)},
                  "would have more than 8 dimensions"),
          Refused("GatherGradient", {zeros({2, 2}), zeros({3}, DType::i32), zeros({4, 2})},
                  "dy [2, 2] is not what rows of [4, 2] by indices [3] give"),
          Refused("GatherGradient", {zeros({1}), zeros({1}, DType::i32), f32(zeros({4}))},
                  "dy and x_like must have one dtype, got f64 and f32"),
      });
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
