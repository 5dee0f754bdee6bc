// Unique and Bincount: distinct values and their counts.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs length(int64_t n) { return {{"length", n}}; }

OpCases bincount_cases() {
  return {.values = {{.name = "a vector",
                      .op = "Bincount",
                      .inputs = {i32(vector({1, 3, 1, 0, 1}))},
                      .attrs = length(5),
                      .expected = {i64(vector({1, 3, 0, 1, 0}))}},
                     {.name = "a matrix",
                      .op = "Bincount",
                      .inputs = {i32(matrix({{0, 2}, {2, 2}}))},
                      .attrs = length(3),
                      .expected = {i64(vector({1, 0, 3}))}},
                     {.name = "a scalar",
                      .op = "Bincount",
                      .inputs = {i32(scalar(0))},
                      .attrs = length(1),
                      .expected = {i64(vector({1}))}},
                     {.name = "up to the greatest",
                      .op = "Bincount",
                      .inputs = {i32(vector({4, 0, 4}))},
                      .expected = {i64(vector({1, 0, 0, 0, 2}))}},
                     {.name = "nothing, up to the greatest",
                      .op = "Bincount",
                      .inputs = {zeros({0}, DType::i32)},
                      .expected = {zeros({0}, DType::i64)}},
                     {.name = "nothing to count",
                      .op = "Bincount",
                      .inputs = {zeros({0}, DType::i32)},
                      .attrs = length(2),
                      .expected = {i64(vector({0, 0}))}}},
          .errors = {{.op = "Bincount",
                      .inputs = {i32(vector({1}))},
                      .attrs = length(-2),
                      .message = "wants a length of at least 0, or -1 for as many as there are"},
                     {.op = "Bincount",
                      .inputs = {i32(vector({1, 2}))},
                      .attrs = length(2),
                      .message = "index 2 (number 1 of 2) is not in [0, 2)",
                      .when_run = true},
                     {.op = "Bincount",
                      .inputs = {i32(vector({1, -3}))},
                      .message = "index -3 (number 1 of 2) is not in [0, 2)",
                      .when_run = true},
                     {.op = "Bincount",
                      .inputs = {vector({1})},
                      .attrs = length(2),
                      .message = "has no kernel for f64; cast to one of i32, i64"}}};
}
const ListedCases listed(bincount_cases);

OpCase different(std::string name, Tensor x, Tensor values, Tensor indices, Tensor counts) {
  return {.name = std::move(name),
          .op = "Unique",
          .inputs = {x},
          .expected = {values, i64(indices), i64(counts)}};
}

OpCases unique_cases() {
  return {.values = {different("a vector", vector({3, 1, 3, 7, 1, 3}), vector({3, 1, 7}),
                               vector({0, 1, 0, 2, 1, 0}), vector({3, 2, 1})),
                     different("a matrix", matrix({{2, 2}, {1, 2}}), vector({2, 1}),
                               matrix({{0, 0}, {1, 0}}), vector({3, 1})),
                     different("size one", vector({5}), vector({5}), vector({0}), vector({1})),
                     different("a scalar", scalar(5), vector({5}), scalar(0), vector({1})),
                     different("empty", zeros({0, 2}), zeros({0}), zeros({0, 2}), zeros({0})),
                     different("NaN is one value", vector({NAN, 1, NAN, INFINITY}),
                               vector({NAN, 1, INFINITY}), vector({0, 1, 0, 2}), vector({2, 1, 1})),
                     different("0 and -0 are one value", vector({0.0, -0.0, 1}), vector({0, 1}),
                               vector({0, 0, 1}), vector({2, 1})),
                     different("bool", booleans(vector({0, 1, 0})), booleans(vector({0, 1})),
                               vector({0, 1, 0}), vector({2, 1})),
                     different("negative i32", i32(vector({-1, 0, -1})), i32(vector({-1, 0})),
                               vector({0, 1, 0}), vector({2, 1})),
                     different("u8", u8(vector({255, 0, 255})), u8(vector({255, 0})),
                               vector({0, 1, 0}), vector({2, 1})),
                     different("f32", f32(vector({0.5, 0.25, 0.5})), f32(vector({0.5, 0.25})),
                               vector({0, 1, 0}), vector({2, 1}))},
          .errors = {{.op = "Unique",
                      .inputs = {vector({1}), vector({2})},
                      .message = "wants 1 input (x), got 2"}}};
}
const ListedCases listed_unique(unique_cases);

}  // namespace

TEST_CASE("Bincount counts small numbers") { check(bincount_cases()); }

TEST_CASE("Unique gives values in the order they appear, their places and their counts") {
  check(unique_cases());
}

TEST_CASE("gather takes what Unique found apart together again") {
  Graph graph;
  Tensor numbers = i64(zeros({5000}));
  int64_t state = 1;
  for (int64_t i = 0; i < numbers.size(); ++i)
    numbers.mutable_data<int64_t>()[i] = (state = state * 16807 % 2147483647) % 1777 << 40;
  const Unique u = unique(constant(graph, numbers));
  const auto got = evaluate(graph, {gather(u.values, u.indices), u.values, u.counts});
  CHECK(same_bits(got[0], numbers));
  CHECK(got[1].dim(0) <= 1777);
  int64_t sum = 0;
  for (const int64_t count : got[2].values<int64_t>()) sum += count;
  CHECK(sum == numbers.size());
}

}  // namespace troupe
