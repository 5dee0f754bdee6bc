// ReduceMax and ReduceMin, ArgMax and ArgMin: the second of each pair has the table of the first
// with numbers of the other sign.

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// first + sign * x
Tensor turned(double sign, const Tensor& x, double first = 0) {
  std::vector<double> all;
  for (const double value : x.values<double>()) all.push_back(first + sign * value);
  return from_doubles(all, DType::f64, x.shape());
}

// sign: 1 for the greatest, -1 for the least.
OpCases reduced(const std::string& op, double sign, const std::string& extreme) {
  const auto refusal = "there is no " + extreme + " of no elements: axis ";
  OpCases all = table_of(
      op,
      {
          Case("everything", {matrix({{1, 2, 3}, {4, 6, 5}})}, {scalar(6)}),
          Case("rows", {matrix({{1, 3, 2}, {4, 5, 6}})}, {vector({3, 6})}, over({1})),
          Case("columns", {matrix({{1, 5, 3}, {4, 2, 6}})}, {vector({4, 5, 6})}, over({0})),
          Case("keeping dimensions", {matrix({{1, 3, 2}, {4, 5, 6}})}, {matrix({{3}, {6}})},
               over({-1}, true)),
          Case("first and last", {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
               {vector({9, 8, 11})}, over({0, 2})),
          Case("the other sign", {vector({-3, -1.5, -2})}, {scalar(-1.5)}),
          Case("size one", {vector({1.5})}, {scalar(1.5)}, over({0})),
          Case("a long row", {iota({1000}, -500)}, {scalar(499)}).rough(),
          Case("no rows", {zeros({0, 2})}, {zeros({0})}, over({1})),
          Case("NaN among others", {matrix({{1, NAN}, {NAN, 1}, {INFINITY, 2}, {-INFINITY, -5}})},
               {vector({NAN, NAN, INFINITY, -5})}, over({1}))
              .rough(),
      },
      {
          Refused({zeros({2, 3})}, "axis 2 is not there: with 2 dimensions, axes go from -2 to 1",
                  over({2})),
          Refused({zeros({2, 3})}, "names axis -1 twice", over({1, -1})),
          Refused({booleans(zeros({2}))}, "has no kernel for bool", over({})),
          Refused({zeros({0})}, refusal + "0 of [0]"),
          Refused({zeros({2, 0})}, refusal + "1 of [2, 0]", over({1})),
      });
  for (OpCase& c : all.values) {
    c.inputs[0] = turned(sign, c.inputs[0]);
    c.expected[0] = turned(sign, c.expected[0]);
  }
  return all;
}
const Table max_table("ReduceMax chooses the greatest, and NaN",
                      [] { return reduced("ReduceMax", 1, "greatest"); });
const Table min_table("ReduceMin chooses the least, and NaN",
                      [] { return reduced("ReduceMin", -1, "least"); });

OpCases indexed(const std::string& op, double sign) {
  const auto of = [&](const char* name, const Tensor& x, int64_t axis, const Tensor& expected) {
    return Case(name, {turned(sign, x)}, {i64(expected)}, {{"axis", axis}}).as_typed();
  };
  const Tensor x = matrix({{1, 5, 2}, {7, 0, 6}});
  std::vector<OpCase> rows = {
      of("columns", x, -1, vector({1, 0})),
      of("rows", x, 0, vector({1, 0, 1})),
      of("the first of equals", vector({2, 3, 3}), 0, scalar(1)),
      of("size one", vector({-4}), 0, scalar(0)),
      of("between dimensions", iota({2, 3, 2}, 0, -1), 1, zeros({2, 2})),
      of("one sign and an infinity", vector({-INFINITY, -5, -6}), 0, scalar(1)),
      of("the first NaN before all others", vector({1, NAN, INFINITY, NAN}), 0, scalar(1)),
      of("nothing to choose for", zeros({0, 2}), 1, zeros({0}))};
  for (DType dtype : {DType::f32, DType::i32, DType::i64, DType::u8})  // numbers from 0 to 7
    rows.push_back(Case(to_string(dtype), {converted(turned(sign, x, sign < 0 ? 7 : 0), dtype)},
                        {i64(vector({1, 0}))}, {{"axis", int64_t{-1}}})
                       .as_typed());
  return table_of(
      op, rows,
      {Refused({zeros({2, 0})}, "has nothing to choose from along axis 1 of [2, 0]"),
       Refused({zeros({2})}, "axis 1 is not there: with 1 dimensions, axes go from -1 to 0",
               {{"axis", int64_t{1}}}),
       Refused({booleans(zeros({2}))}, "has no kernel for bool")});
}
OpCases argmax_cases() { return indexed("ArgMax", 1); }
OpCases argmin_cases() { return indexed("ArgMin", -1); }
const ListedCases listed_argmax(argmax_cases), listed_argmin(argmin_cases);

}  // namespace

TEST_CASE("ArgMax finds the first of the greatest") { check(argmax_cases()); }
TEST_CASE("ArgMin finds the first of the least") { check(argmin_cases()); }

TEST_CASE("equal greatest or least elements share the gradient") {
  for (const double sign : {1, -1}) {
    CAPTURE(sign);
    Graph graph;
    const Output x = placeholder(graph, DType::f64, Shape{2, 3});
    const Output y = sign > 0 ? reduce_max(x, {.axes = {1}}) : reduce_min(x, {.axes = {1}});
    const Output dx = gradients({y}, {x})[0];
    CHECK(!difference(evaluate(dx, {{x, turned(sign, matrix({{1, 3, 3}, {2, 0, 1}}))}}),
                      matrix({{0, 0.5, 0.5}, {1, 0, 0}})));
    // NaN goes before all others, and no other element gets a gradient.
    CHECK(
        !difference(evaluate(dx, {{x, turned(sign, matrix({{1, NAN, 3}, {NAN, INFINITY, NAN}}))}}),
                    matrix({{0, 1, 0}, {0.5, 0, 0.5}})));
  }
}

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
