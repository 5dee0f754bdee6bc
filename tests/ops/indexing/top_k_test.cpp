// TopK, and TakeAlong with its gradient, which the gradients of TopK and Sort use.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs k(int64_t k) { return {{"k", k}}; }
Attrs along(int64_t axis) { return {{"axis", axis}}; }

OpCases top_k_cases() {
  return {.values = {{.name = "of a vector",
                      .op = "TopK",
                      .inputs = {vector({3, 1, 4, 1, 5, 9, 2, 6})},
                      .attrs = k(3),
                      .expected = {vector({9, 6, 5}), i64(vector({5, 7, 4}))}},
                     {.name = "of each line",
                      .op = "TopK",
                      .inputs = {values({2, 2, 3}, {1, 2, 3, 6, 5, 4, 7, 9, 8, 10, 12, 11})},
                      .attrs = k(2),
                      .expected = {values({2, 2, 2}, {3, 2, 6, 5, 9, 8, 12, 11}),
                                   i64(values({2, 2, 2}, {2, 1, 0, 1, 1, 2, 1, 2}))}},
                     {.name = "negative numbers",
                      .op = "TopK",
                      .inputs = {matrix({{-1, -3, -2}, {0.5, -0.5, 2}})},
                      .attrs = k(2),
                      .expected = {matrix({{-1, -2}, {2, 0.5}}), i64(matrix({{0, 2}, {2, 0}}))}},
                     {.name = "of equals the first ones first",
                      .op = "TopK",
                      .inputs = {vector({2, 7, 7, 2, 7, 2, 2})},
                      .attrs = k(5),
                      .expected = {vector({7, 7, 7, 2, 2}), i64(vector({1, 2, 4, 0, 3}))},
                      .smooth = false},
                     {.name = "all of them",
                      .op = "TopK",
                      .inputs = {vector({1, 3, 2})},
                      .attrs = k(3),
                      .expected = {vector({3, 2, 1}), i64(vector({1, 2, 0}))}},
                     {.name = "NaN is the greatest",
                      .op = "TopK",
                      .inputs = {vector({1, NAN, INFINITY, NAN, -INFINITY})},
                      .attrs = k(4),
                      .expected = {vector({NAN, NAN, INFINITY, 1}), i64(vector({1, 3, 2, 0}))},
                      .smooth = false},
                     {.name = "the ends of i64",
                      .op = "TopK",
                      .inputs = {Tensor::of<int64_t>({0, INT64_MIN, INT64_MAX}, {3})},
                      .attrs = k(2),
                      .expected = {Tensor::of<int64_t>({INT64_MAX, 0}, {2}), i64(vector({2, 0}))},
                      .as_written = true},
                     {.name = "none of them",
                      .op = "TopK",
                      .inputs = {vector({1, 2})},
                      .attrs = k(0),
                      .expected = {zeros({0}), zeros({0}, DType::i64)}},
                     {.name = "size one",
                      .op = "TopK",
                      .inputs = {vector({5})},
                      .attrs = k(1),
                      .expected = {vector({5}), i64(vector({0}))}},
                     {.name = "empty",
                      .op = "TopK",
                      .inputs = {zeros({0, 3})},
                      .attrs = k(2),
                      .expected = {zeros({0, 2}), zeros({0, 2}, DType::i64)}}},
          .errors = {
              {.op = "TopK",
               .inputs = {scalar(1)},
               .attrs = k(1),
               .message = "wants lines to choose from, [..., n], got a scalar"},
              {.op = "TopK",
               .inputs = {zeros({4, 2})},
               .attrs = k(3),
               .message = "wants a k from 0 to the size of the last dimension, got 3 for [4, 2]"},
              {.op = "TopK",
               .inputs = {zeros({2})},
               .attrs = k(-1),
               .message = "wants a k from 0 to the size of the last dimension, got -1"},
              {.op = "TopK",
               .inputs = {booleans(zeros({2}))},
               .attrs = k(1),
               .message = "has no kernel for bool; cast to one of f32, f64, i32, i64, u8"}}};
}
const ListedCases listed_top_k(top_k_cases);

OpCases take_along_cases() {
  const Tensor x = matrix({{1, 2, 3}, {4, 5, 6}});
  const Tensor i = i64(matrix({{2, 0}, {1, 1}}));
  return {
      .values = {{.name = "along the last axis",
                  .op = "TakeAlong",
                  .inputs = {x, i},
                  .expected = {matrix({{3, 1}, {5, 5}})}},
                 {.name = "along the first axis",
                  .op = "TakeAlong",
                  .inputs = {x, i32(matrix({{1, 0, 1}}))},
                  .attrs = along(0),
                  .expected = {matrix({{4, 2, 6}})}},
                 {.name = "in the middle",
                  .op = "TakeAlong",
                  .inputs = {iota({2, 3, 2}), i32(values({2, 1, 2}, {2, 0, 1, 1}))},
                  .attrs = along(1),
                  .expected = {values({2, 1, 2}, {4, 1, 8, 9})}},
                 {.name = "of bool",
                  .op = "TakeAlong",
                  .inputs = {booleans(vector({1, 0})), i64(vector({1, 0, 1}))},
                  .expected = {booleans(vector({0, 1, 0}))}},
                 {.name = "size one",
                  .op = "TakeAlong",
                  .inputs = {vector({7}), i32(vector({0}))},
                  .expected = {vector({7})}},
                 {.name = "no indices into nothing",
                  .op = "TakeAlong",
                  .inputs = {zeros({2, 0}), zeros({2, 0}, DType::i32)},
                  .expected = {zeros({2, 0})}},
                 {.name = "sums",
                  .op = "TakeAlongGradient",
                  .inputs = {matrix({{10, 20}, {30, 40}}), i, x},
                  .expected = {matrix({{20, 0, 10}, {0, 70, 0}})}},
                 {.name = "sums along the first axis",
                  .op = "TakeAlongGradient",
                  .inputs = {matrix({{1, 2}, {3, 4}, {5, 6}}),
                             i32(matrix({{0, 1}, {0, 0}, {1, 1}})), zeros({2, 2})},
                  .attrs = along(0),
                  .expected = {matrix({{4, 4}, {5, 8}})}},
                 {.name = "nothing is added",
                  .op = "TakeAlongGradient",
                  .inputs = {zeros({0}), zeros({0}, DType::i64), zeros({2})},
                  .expected = {zeros({2})}}},
      .errors = {
          {.op = "TakeAlong",
           .inputs = {x, i64(zeros({3, 1}))},
           .message = "wants indices with the sizes of [2, 3] but along axis 1, got [3, 1]"},
          {.op = "TakeAlong", .inputs = {x, i64(zeros({3}))}, .message = "but along axis 1, got ["},
          {.op = "TakeAlong",
           .inputs = {x, i},
           .attrs = along(2),
           .message = "axis 2 is not there"},
          {.op = "TakeAlong",
           .inputs = {x, matrix({{0}, {0}})},
           .message = "wants indices of i32 or i64, got f64; cast them"},
          {.op = "TakeAlong",
           .inputs = {x, i64(matrix({{0}, {3}}))},
           .message = "index 3 (number 1 of 2) is not in [0, 3)",
           .when_run = true},
          {.op = "TakeAlongGradient",
           .inputs = {matrix({{0}, {0}}), i64(matrix({{0}, {-1}})), x},
           .message = "index -1 (number 1 of 2) is not in [0, 3)",
           .when_run = true},
          {.op = "TakeAlongGradient",
           .inputs = {zeros({2, 3}), i, x},
           .message = "wants a dy for each index, got [2, 3] for [2, 2]"},
          {.op = "TakeAlongGradient",
           .inputs = {zeros({3, 2}), i64(zeros({3, 2})), x},
           .message = "wants indices with the sizes of [2, 3] but along axis 1, got [3, 2]"},
          {.op = "TakeAlongGradient",
           .inputs = {zeros({2, 2}), i, f32(x)},
           .message = "dy and x_like must have one dtype, got f64 and f32"}}};
}
const ListedCases listed_take_along(take_along_cases);

}  // namespace

TEST_CASE("TopK chooses the greatest, greatest first") { check(top_k_cases()); }

TEST_CASE("TakeAlong chooses along an axis, and its gradient adds what it chose") {
  check(take_along_cases());
}

TEST_CASE("the k greatest of many are the first k of a sort, for any k") {
  Graph graph;
  Tensor numbers = i32(zeros({3, 500}));
  int32_t state = 1;
  for (int64_t i = 0; i < numbers.size(); ++i)
    numbers.mutable_data<int32_t>()[i] = (state = state * 16807 % 2039) % 100;  // many are equal
  const Output x = constant(graph, numbers);
  const Output values = sort(x, {.descending = true}), at = argsort(x, {.descending = true});
  for (int64_t k : {1, 2, 17, 499, 500}) {
    const TopK best = top_k(x, k);
    CHECK(same_bits(evaluate(best.values), evaluate(slice(values, {0, 0}, {-1, k}))));
    CHECK(same_bits(evaluate(best.indices), evaluate(slice(at, {0, 0}, {-1, k}))));
  }
}

}  // namespace troupe
