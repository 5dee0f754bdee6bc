// TopK, and TakeAlong with its gradient, which the gradients of TopK and Sort use.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs k(int64_t k) { return {{"k", k}}; }
Attrs along(int64_t axis) { return {{"axis", axis}}; }

OpCases top_k_cases() {
  return table_of(
      "TopK",
      {Case("of a vector", {vector({3, 1, 4, 1, 5, 9, 2, 6})},
            {vector({9, 6, 5}), i64(vector({5, 7, 4}))}, k(3)),
       Case("of each line", {values({2, 2, 3}, {1, 2, 3, 6, 5, 4, 7, 9, 8, 10, 12, 11})},
            {values({2, 2, 2}, {3, 2, 6, 5, 9, 8, 12, 11}),
             i64(values({2, 2, 2}, {2, 1, 0, 1, 1, 2, 1, 2}))},
            k(2)),
       Case("negative numbers", {matrix({{-1, -3, -2}, {0.5, -0.5, 2}})},
            {matrix({{-1, -2}, {2, 0.5}}), i64(matrix({{0, 2}, {2, 0}}))}, k(2)),
       Case("of equals the first ones first", {vector({2, 7, 7, 2, 7, 2, 2})},
            {vector({7, 7, 7, 2, 2}), i64(vector({1, 2, 4, 0, 3}))}, k(5))
           .rough(),
       Case("all of them", {vector({1, 3, 2})}, {vector({3, 2, 1}), i64(vector({1, 2, 0}))}, k(3)),
       Case("NaN is the greatest", {vector({1, NAN, INFINITY, NAN, -INFINITY})},
            {vector({NAN, NAN, INFINITY, 1}), i64(vector({1, 3, 2, 0}))}, k(4))
           .rough(),
       Case("the ends of i64", {Tensor::of<int64_t>({0, INT64_MIN, INT64_MAX}, {3})},
            {Tensor::of<int64_t>({INT64_MAX, 0}, {2}), i64(vector({2, 0}))}, k(2))
           .as_typed(),
       Case("none of them", {vector({1, 2})}, {zeros({0}), zeros({0}, DType::i64)}, k(0)),
       Case("size one", {vector({5})}, {vector({5}), i64(vector({0}))}, k(1)),
       Case("empty", {zeros({0, 3})}, {zeros({0, 2}), zeros({0, 2}, DType::i64)}, k(2))},
      {Refused({scalar(1)}, "wants lines to choose from, [..., n], got a scalar", k(1)),
       Refused({zeros({4, 2})},
               "wants a k from 0 to the size of the last dimension, got 3 for [4, 2]", k(3)),
       Refused({zeros({2})}, "wants a k from 0 to the size of the last dimension, got -1", k(-1)),
       Refused({booleans(zeros({2}))},
               "has no kernel for bool; cast to one of f32, f64, i32, i64, u8", k(1))});
}
const ListedCases listed_top_k(top_k_cases);

OpCases take_along_cases() {
  const Tensor x = matrix({{1, 2, 3}, {4, 5, 6}});
  const Tensor i = i64(matrix({{2, 0}, {1, 1}}));
  return table_of(
      "TakeAlong",
      {Case("along the last axis", {x, i}, {matrix({{3, 1}, {5, 5}})}),
       Case("along the first axis", {x, i32(matrix({{1, 0, 1}}))}, {matrix({{4, 2, 6}})}, along(0)),
       Case("in the middle", {iota({2, 3, 2}), i32(values({2, 1, 2}, {2, 0, 1, 1}))},
            {values({2, 1, 2}, {4, 1, 8, 9})}, along(1)),
       Case("of bool", {booleans(vector({1, 0})), i64(vector({1, 0, 1}))},
            {booleans(vector({0, 1, 0}))}),
       Case("size one", {vector({7}), i32(vector({0}))}, {vector({7})}),
       Case("no indices into nothing", {zeros({2, 0}), zeros({2, 0}, DType::i32)}, {zeros({2, 0})}),
       Case("TakeAlongGradient", "sums", {matrix({{10, 20}, {30, 40}}), i, x},
            {matrix({{20, 0, 10}, {0, 70, 0}})}),
       Case(
           "TakeAlongGradient", "sums along the first axis",
           {matrix({{1, 2}, {3, 4}, {5, 6}}), i32(matrix({{0, 1}, {0, 0}, {1, 1}})), zeros({2, 2})},
           {matrix({{4, 4}, {5, 8}})}, along(0)),
       Case("TakeAlongGradient", "nothing is added",
            {zeros({0}), zeros({0}, DType::i64), zeros({2})}, {zeros({2})})},
      {Refused({x, i64(zeros({3, 1}))},
               "wants indices with the sizes of [2, 3] but along axis 1, got [3, 1]"),
       Refused({x, i64(zeros({3}))}, "but along axis 1, got ["),
       Refused({x, i}, "axis 2 is not there", along(2)),
       Refused({x, matrix({{0}, {0}})}, "wants indices of i32 or i64, got f64; cast them"),
       Refused({x, i64(matrix({{0}, {3}}))}, "index 3 (number 1 of 2) is not in [0, 3)").in_step(),
       Refused("TakeAlongGradient", {matrix({{0}, {0}}), i64(matrix({{0}, {-1}})), x},
               "index -1 (number 1 of 2) is not in [0, 3)")
           .in_step(),
       Refused("TakeAlongGradient", {zeros({2, 3}), i, x},
               "wants a dy for each index, got [2, 3] for [2, 2]"),
       Refused("TakeAlongGradient", {zeros({3, 2}), i64(zeros({3, 2})), x},
               "wants indices with the sizes of [2, 3] but along axis 1, got [3, 2]"),
       Refused("TakeAlongGradient", {zeros({2, 2}), i, f32(x)},
               "dy and x_like must have one dtype, got f64 and f32")});
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
