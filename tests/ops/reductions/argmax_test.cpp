// ArgMax.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase of(std::string name, Tensor x, int64_t axis, Tensor expected) {
  return Case("ArgMax", std::move(name), {x}, {i64(expected)}, {{"axis", axis}}).as_typed();
}

OpCases cases() {
  const Tensor x = matrix({{1, 5, 2}, {7, 0, 6}});
  OpCases all = table_of(
      "ArgMax",
      {of("columns", x, -1, vector({1, 0})), of("rows", x, 0, vector({1, 0, 1})),
       of("the first of equals", vector({2, 3, 3}), 0, scalar(1)),
       of("size one", vector({-4}), 0, scalar(0)),
       of("between dimensions", iota({2, 3, 2}, 0, -1), 1, zeros({2, 2})),
       of("negative numbers and infinities", vector({-INFINITY, -5, -6}), 0, scalar(1)),
       of("NaN is the greatest, the first one", vector({1, NAN, INFINITY, NAN}), 0, scalar(1)),
       of("nothing to choose for", zeros({0, 2}), 1, zeros({0}))},
      {Refused({zeros({2, 0})}, "has nothing to choose from along axis 1 of [2, 0]"),
       Refused({zeros({2})}, "axis 1 is not there: with 1 dimensions, axes go from -1 to 0",
               {{"axis", int64_t{1}}}),
       Refused({booleans(zeros({2}))}, "has no kernel for bool")});
  for (DType dtype : {DType::f32, DType::i32, DType::i64, DType::u8})
    all.values.push_back(of(to_string(dtype), converted(x, dtype), -1, vector({1, 0})));
  return all;
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("ArgMax finds the first of the greatest") { check(cases()); }

TEST_CASE("ArgMax and ArgMin choose alike along rows and along columns, NaN and equals included") {
  Tensor x = Tensor::empty(DType::f64, {2, 37, 600});
  uint32_t state = 7;
  for (int64_t i = 0; i < x.size(); ++i) {
    state = state * 1664525 + 1013904223;
    x.mutable_data<double>()[i] = (state >> 24) % 100;
  }
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8}) {
    CAPTURE(to_string(dtype));
    Tensor of_dtype = converted(x, dtype);
    if (dtype == DType::f64)
      for (const int64_t i : {5, 605, 22199}) of_dtype.mutable_data<double>()[i] = NAN;
    Graph graph;
    const Output columns = constant(graph, of_dtype), rows = transpose(columns, {0, 2, 1});
    CHECK(same_bits(evaluate(argmax(columns, 1)), evaluate(argmax(rows, 2))));
    CHECK(same_bits(evaluate(argmin(columns, 1)), evaluate(argmin(rows, 2))));
    CHECK(same_bits(evaluate(argmax(rows, 1)), evaluate(argmax(columns, 2))));
    CHECK(same_bits(evaluate(argmin(rows, 1)), evaluate(argmin(columns, 2))));
  }
}

TEST_CASE("nothing to choose from is refused where the graph could not know it") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{-1});
  const Output y = argmax(x, 0);  // its shape is known
  CHECK_THROWS_WITH_AS(evaluate(y, {{x, f32(zeros({0}))}}),
                       doctest::Contains("has nothing to choose from along axis 0 of [0]"), Error);
}

}  // namespace troupe
