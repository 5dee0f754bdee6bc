// Unique and Bincount: distinct values and their counts.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs length(int64_t n) { return {{"length", n}}; }

OpCases bincount_cases() {
  return table_of(
      "Bincount",
      {Case("a vector", {i32(vector({1, 3, 1, 0, 1}))}, {i64(vector({1, 3, 0, 1, 0}))}, length(5)),
       Case("a matrix", {i32(matrix({{0, 2}, {2, 2}}))}, {i64(vector({1, 0, 3}))}, length(3)),
       Case("a scalar", {i32(scalar(0))}, {i64(vector({1}))}, length(1)),
       Case("up to the greatest", {i32(vector({4, 0, 4}))}, {i64(vector({1, 0, 0, 0, 2}))}),
       Case("nothing, up to the greatest", {zeros({0}, DType::i32)}, {zeros({0}, DType::i64)}),
       Case("nothing to count", {zeros({0}, DType::i32)}, {i64(vector({0, 0}))}, length(2))},
      {Refused({i32(vector({1}))}, "wants a length of at least 0, or -1 for as many as there are",
               length(-2)),
       Refused({i32(vector({1, 2}))}, "index 2 (number 1 of 2) is not in [0, 2)", length(2))
           .in_step(),
       Refused({i32(vector({1, -3}))}, "index -3 (number 1 of 2) is not in [0, 2)").in_step(),
       Refused({vector({1})}, "has no kernel for f64; cast to one of i32, i64", length(2))});
}
const ListedCases listed(bincount_cases);

OpCase different(std::string name, Tensor x, Tensor values, Tensor indices, Tensor counts) {
  return Case("Unique", std::move(name), {x}, {values, i64(indices), i64(counts)});
}

OpCases unique_cases() {
  return table_of("Unique",
                  {different("a vector", vector({3, 1, 3, 7, 1, 3}), vector({3, 1, 7}),
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
                  {Refused({vector({1}), vector({2})}, "wants 1 input (x), got 2")});
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
