// Fmod, Fmax, Fmin, Heaviside, Copysign and Signbit, and what is made of ops: log_add_exp2,
// nan_to_num, zeros_like and ones_like. Expected values are those of numpy 2.4.6.
#include <doctest/doctest.h>

#include <limits>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases fmod_cases() {
  OpCases all = binary_cases(
      "Fmod", booleans(zeros({2})),
      {
          {.name = "the sign of the dividend",
           .inputs = {vector({7, -7, 7, -7, 5}), vector({3, 3, -3, -3, 9})},
           .expected = {vector({1, -1, 1, -1, 5})}},
          {.name = "broken numbers",
           .inputs = {vector({5.5, -0.25, 2.25, -5.5}), vector({2, 1, -0.5, -2})},
           .expected = {vector({1.5, -0.25, 0.25, -1.5})}},
          {.name = "nothing is left",
           .inputs = {vector({6, 0, -6, 6}), vector({3, 2, 3, -1})},
           .expected = {vector({0, 0, 0, 0})},
           .smooth = false},
          {.name = "size one", .inputs = {vector({9}), vector({4})}, .expected = {vector({1})}},
          {.name = "rows by a row",
           .inputs = {matrix({{7, -8}, {9, 11}}), vector({4, 5})},
           .expected = {matrix({{3, -3}, {1, 1}})}},
          {.name = "a scalar by every element",
           .inputs = {scalar(-17), vector({3, 5, 12})},
           .expected = {vector({-2, -2, -5})}},
          {.name = "a remainder is exact",
           .inputs = {vector({1, 0.3, -1, 1e300, -1e18, 1e308}),
                      vector({0.1, 0.1, 0.1, 3, 7, 1e-308})},
           .expected = {vector({0.09999999999999995, 0.09999999999999998, -0.09999999999999995, 0,
                                -1, 3.498445546245627e-309})},
           .tolerance = 0,
           .as_written = true,
           .smooth = false},
          {.name = "zeros and what is not finite",
           .inputs = {vector({5, -5, 5, -5, INFINITY, 1, 0, -1, NAN, 1, 6, -6}),
                      vector(
                          {INFINITY, INFINITY, -INFINITY, -INFINITY, 2, 0, 0, 0, 1, NAN, -3, 3})},
           .expected = {vector({5, -5, 5, -5, NAN, NAN, NAN, NAN, NAN, NAN, 0, 0})},
           .smooth = false},
          {.name = "the least integer",
           .inputs = {i32(vector({-2147483648.0, -2147483647, 7, 2147483647, -2147483648.0})),
                      i32(vector({-1, 2147483647, -2147483648.0, -2147483648.0, 3}))},
           .expected = {i32(vector({0, 0, 7, 2147483647, -2}))},
           .as_written = true},
      });
  for (const Tensor& divisor : {i32(vector({1, 0})), u8(vector({1, 0}))})
    all.errors.push_back({.op = "Fmod",
                          .inputs = {converted(vector({1, 2}), divisor.dtype()), divisor},
                          .message = "divides an integer by zero: element 1 of b",
                          .when_run = true});
  return all;
}
const ListedCases listed_fmod(fmod_cases);

// With NaN on either side or on both, beside numbers and infinities.
const Tensor odd_a = vector({NAN, 1, NAN, INFINITY, -INFINITY, NAN, -INFINITY, NAN, INFINITY});
const Tensor odd_b = vector({1, NAN, NAN, NAN, NAN, -INFINITY, 1, INFINITY, -INFINITY});

OpCases extreme_cases(const std::string& op, bool greater) {
  const auto either = [&](const Tensor& if_max, const Tensor& if_min) {
    return std::vector{greater ? if_max : if_min};
  };
  return binary_cases(
      op, booleans(zeros({2})),
      {
          {.name = "same shape",
           .inputs = {vector({5, -7, 9}), vector({1, 2, 30})},
           .expected = either(vector({5, 2, 30}), vector({1, -7, 9}))},
          {.name = "size one",
           .inputs = {vector({0.5}), vector({2.5})},
           .expected = either(vector({2.5}), vector({0.5}))},
          {.name = "a row with every row",
           .inputs = {matrix({{1, 2}, {3, 4}}), vector({2, 3})},
           .expected = either(matrix({{2, 3}, {3, 4}}), matrix({{1, 2}, {2, 3}}))},
          {.name = "against a scalar",
           .inputs = {vector({1, 2, 3}), scalar(2.5)},
           .expected = either(vector({2.5, 2.5, 3}), vector({1, 2, 2.5}))},
          {.name = "equals and zeros",
           .inputs = {vector({1, 0.0, -0.0}), vector({1, -0.0, 0.0})},
           .expected = either(vector({1, 0, 0}), vector({1, 0, 0})),
           .smooth = false},
          {.name = "the ends of i32",
           .inputs = {i32(vector({-2147483648.0, 2147483647})),
                      i32(vector({2147483647, -2147483648.0}))},
           .expected = either(i32(vector({2147483647, 2147483647})),
                              i32(vector({-2147483648.0, -2147483648.0}))),
           .as_written = true},
          {.name = "NaN and infinities",
           .inputs = {odd_a, odd_b},
           .expected = either(
               vector({1, 1, NAN, INFINITY, -INFINITY, -INFINITY, 1, INFINITY, INFINITY}),
               vector({1, 1, NAN, INFINITY, -INFINITY, -INFINITY, -INFINITY, INFINITY, -INFINITY})),
           .smooth = false},
      });
}
OpCases fmax_cases() { return extreme_cases("Fmax", true); }
OpCases fmin_cases() { return extreme_cases("Fmin", false); }
const ListedCases listed_fmax(fmax_cases), listed_fmin(fmin_cases);

OpCases heaviside_cases() {
  return binary_cases(
      "Heaviside", booleans(zeros({2})),
      {
          {.name = "before and after the step",
           .inputs = {vector({-1.5, 2, -3, 0.25}), vector({0.5, 0.5, 7, -7})},
           .expected = {vector({0, 1, 0, 1})}},
          {.name = "at the step",
           .inputs = {vector({0, -0.0, 0, 0}), vector({0.5, 0.25, -2, 9})},
           .expected = {vector({0.5, 0.25, -2, 9})},
           .smooth = false},
          {.name = "a slope for what stands at zero",
           .inputs = {vector({0.5, 3})},
           .expected = {matrix({{0.5, 1}, {0, 3}})},
           .build =
               [](Graph& graph, const std::vector<Output>& x) {
                 return std::vector{heaviside(constant(graph, matrix({{0, 1}, {-2, 0}})), x[0])};
               },
           .as_written = true},
          {.name = "size one", .inputs = {vector({2}), vector({5})}, .expected = {vector({1})}},
          {.name = "rows by a row, in integers, too",
           .inputs = {matrix({{4, 0}, {0, 3}}), vector({5, 2})},
           .expected = {matrix({{1, 2}, {5, 1}})},
           .smooth = false},
          {.name = "a scalar by every element",
           .inputs = {scalar(0), vector({INFINITY, -INFINITY, -0.0, 3})},
           .expected = {vector({INFINITY, -INFINITY, 0, 3})},
           .smooth = false},
          {.name = "NaN and infinities",
           .inputs = {vector({INFINITY, -INFINITY, NAN, NAN, 0, 1, -1}),
                      vector({0.5, 0.5, 0.5, NAN, NAN, NAN, NAN})},
           .expected = {vector({1, 0, NAN, NAN, NAN, 1, 0})},
           .smooth = false},
      });
}
const ListedCases listed_heaviside(heaviside_cases);

OpCases copysign_cases() {
  return binary_cases(
      "Copysign", i32(zeros({2})),
      {
          {.name = "same shape",
           .inputs = {vector({3, -3, 2.5, -2.5}), vector({-1, -1, 4, 4})},
           .expected = {vector({-3, -3, 2.5, 2.5})}},
          {.name = "size one", .inputs = {vector({2}), vector({-5})}, .expected = {vector({-2})}},
          {.name = "rows by a row",
           .inputs = {matrix({{1, -2}, {3, 0.5}}), vector({-1, 1})},
           .expected = {matrix({{-1, 2}, {-3, 0.5}})}},
          {.name = "a scalar by every element",
           .inputs = {scalar(2.5), vector({-1, 0.0, -0.0, 3})},
           .expected = {vector({-2.5, 2.5, -2.5, 2.5})},
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN, 2, -2}), vector({-1, 1, -1, -NAN, NAN})},
           .expected = {vector({-INFINITY, INFINITY, NAN, -2, 2})},
           .smooth = false},
      });
}
const ListedCases listed_copysign(copysign_cases);

OpCases signbit_cases() {
  using Limits = std::numeric_limits<float>;
  return {.values =
              {
                  {.name = "all kinds",
                   .op = "Signbit",
                   .inputs = {vector({1, -1, 0.0, -0.0, INFINITY, -INFINITY, NAN, -NAN})},
                   .expected = {booleans(vector({0, 1, 0, 1, 0, 1, 0, 1}))}},
                  {.name = "size one",
                   .op = "Signbit",
                   .inputs = {matrix({{-0.5}})},
                   .expected = {booleans(matrix({{1}}))}},
                  {.name = "the ends of f32",
                   .op = "Signbit",
                   .inputs = {Tensor::of<float>({Limits::max(), Limits::lowest(),
                                                 Limits::denorm_min(), -Limits::denorm_min()},
                                                Shape{4})},
                   .expected = {booleans(vector({0, 1, 0, 1}))},
                   .as_written = true},
                  {.name = "the least of f64",
                   .op = "Signbit",
                   .inputs = {vector({5e-324, -5e-324, -1e-300})},
                   .expected = {booleans(vector({0, 1, 1}))},
                   .as_written = true},
                  {.name = "a long one",
                   .op = "Signbit",
                   .inputs = {full({100}, -3)},
                   .expected = {booleans(full({100}, 1))}},
                  {.name = "empty",
                   .op = "Signbit",
                   .inputs = {zeros({3, 0})},
                   .expected = {booleans(zeros({3, 0}))}},
              },
          .errors = {
              {.op = "Signbit",
               .inputs = {i32(zeros({2}))},
               .message = "has no kernel for i32; cast to one of f32, f64"},
              {.op = "Signbit",
               .inputs = {zeros({2}), zeros({2})},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed_signbit(signbit_cases);

OpCases log_add_exp2_cases() {
  OpCases all = binary_cases(
      "LogAddExp", {},
      {
          {.name = "same shape",
           .inputs = {vector({0, 1, -3, 0.1}), vector({0, 2, 0.5, 0.1})},
           .expected = {vector({1, 2.584962500721156, 0.6221934162022744, 1.1})}},
          {.name = "size one", .inputs = {vector({0}), vector({0})}, .expected = {vector({1})}},
          {.name = "rows with a row",
           .inputs = {matrix({{1, 2}, {-3, 0.5}}), vector({2, 1})},
           .expected = {matrix(
               {{2.584962500721156, 2.584962500721156}, {2.0443941193584534, 1.771553303163612}})}},
          {.name = "every element with a scalar",
           .inputs = {scalar(1), vector({2, 0.5})},
           .expected = {vector({2.584962500721156, 1.771553303163612})}},
          {.name = "powers that no dtype holds",
           .inputs = {vector({5000, -5000, 50}), vector({5000, -5001, -50})},
           .expected = {vector({5001, -4999.415037499279, 50})}},
          {.name = "the greatest numbers",
           .inputs = {vector({1e300, 1e308, -1e308}), vector({1e300, -1e308, -1e308})},
           .expected = {vector({1e300, 1e308, -1e308})},
           .tolerance = 0,
           .as_written = true,
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, INFINITY, -INFINITY, -INFINITY, 1, NAN, -INFINITY}),
                      vector({INFINITY, -INFINITY, -INFINITY, 2, INFINITY, 1, NAN})},
           .expected = {vector({INFINITY, INFINITY, -INFINITY, 2, INFINITY, NAN, NAN})},
           .smooth = false},
      });
  const BuildCase build = [](Graph&, const std::vector<Output>& x) {
    return std::vector{log_add_exp2(x[0], x[1])};
  };
  for (OpCase& c : all.values) c.build = build;
  for (OpError& e : all.errors) e.build = build;
  return all;
}

BuildCase replacing(const NanToNum& numbers) {
  return
      [=](Graph&, const std::vector<Output>& x) { return std::vector{nan_to_num(x[0], numbers)}; };
}

OpCases nan_to_num_cases() {
  const Tensor x = vector({1.5, NAN, INFINITY, -INFINITY});
  const auto to_ends = [&](DType dtype, double most) {
    return OpCase{.name = detail::concat("the ends of ", dtype),
                  .inputs = {converted(x, dtype)},
                  .expected = {converted(vector({1.5, 0, most, -most}), dtype)},
                  .tolerance = 0,
                  .build = replacing({}),
                  .as_written = true,
                  .smooth = false};
  };
  OpCases all = {
      .values = {to_ends(DType::f64, 1.7976931348623157e308),
                 to_ends(DType::f32, 3.4028234663852886e38),
                 to_ends(DType::f16, 65504),
                 to_ends(DType::bf16, 0x1.FEp127),  // of its format: numpy has no bf16
                 {.name = "numbers of its own",
                  .inputs = {x},
                  .expected = {vector({1.5, 7, 100, -3})},
                  .build = replacing({.nan = 7, .positive = 100, .negative = -3}),
                  .as_written = true,
                  .smooth = false},
                 {.name = "some of its own",
                  .inputs = {f32(x)},
                  .expected = {f32(vector({1.5, -1, 3.4028234663852886e38, -INFINITY}))},
                  .build = replacing({.nan = -1, .negative = -INFINITY}),
                  .as_written = true,
                  .smooth = false},
                 {.name = "numbers stay",
                  .inputs = {matrix({{1.5, 0}, {-2, 1e3}})},
                  .expected = {matrix({{1.5, 0}, {-2, 1e3}})},
                  .build = replacing({}),
                  .as_written = true},
                 {.name = "empty",
                  .inputs = {zeros({3, 0})},
                  .expected = {zeros({3, 0})},
                  .build = replacing({}),
                  .as_written = true}},
      .errors = {
          {.inputs = {i32(zeros({2}))}, .message = "nan_to_num made at ", .build = replacing({})},
          {.inputs = {i32(zeros({2}))},
           .message = "wants floats, got i32",
           .build = replacing({})}}};
  for (OpCase& c : all.values) c.op = "Where";
  for (OpError& e : all.errors) e.op = "Where";
  return all;
}

Output known_or_not(Graph& graph, const Tensor& tensor, bool known) {
  return placeholder(graph, tensor.dtype(),
                     known ? tensor.shape() : Shape(std::vector<int64_t>(tensor.ndim(), -1)));
}

}  // namespace

TEST_CASE("Fmod has the sign of the dividend") { check(fmod_cases()); }

TEST_CASE("Fmax chooses the greater, and no NaN beside a number") { check(fmax_cases()); }

TEST_CASE("Fmin chooses the less, and no NaN beside a number") { check(fmin_cases()); }

TEST_CASE("Heaviside steps from 0 to 1 by a number of one's own") { check(heaviside_cases()); }

TEST_CASE("Copysign gives a magnitude another sign") { check(copysign_cases()); }

TEST_CASE("Signbit tells -0 from 0") { check(signbit_cases()); }

TEST_CASE("log_add_exp2 adds in the domain of binary logarithms") { check(log_add_exp2_cases()); }

TEST_CASE("nan_to_num puts numbers where there are none") { check(nan_to_num_cases()); }

TEST_CASE("zeros and NaN have the signs that C and numpy give them") {
  Graph graph;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    CAPTURE(dtype);
    const Output a = placeholder(graph, dtype, {4}), b = placeholder(graph, dtype, {4});
    const auto signs = [&](Output y, const Tensor& of_a, const Tensor& of_b) {
      return evaluate(signbit(y), {{a, converted(of_a, dtype)}, {b, converted(of_b, dtype)}});
    };
    const Tensor none = vector({0.0, -0.0, 6, -6});
    CHECK(!difference(signs(fmod(a, b), none, vector({-2, 2, -3, 3})),
                      booleans(vector({0, 1, 0, 1}))));
    CHECK(!difference(
        signs(copysign(a, b), vector({0.0, -0.0, NAN, -NAN}), vector({-0.0, 0.0, -1, 1})),
        booleans(vector({1, 0, 1, 0}))));
    CHECK(!difference(
        signs(heaviside(a, b), vector({0.0, -0.0, -0.0, -1}), vector({-0.0, -0.0, 0.0, -1})),
        booleans(vector({1, 1, 0, 0}))));
    CHECK(!difference(signs(nan_to_num(a), vector({-0.0, 0.0, -INFINITY, -NAN}), none),
                      booleans(vector({1, 0, 1, 0}))));
  }
}

TEST_CASE("gradients at kinks and beside NaN go to one side, and are numbers") {
  Graph graph;
  const auto check_slopes = [&](Output (*f)(Output, Output, Origin), const Tensor& a,
                                const Tensor& b, const Tensor& da, const Tensor& db) {
    const Output x = placeholder(graph, DType::f64, a.shape()),
                 y = placeholder(graph, DType::f64, b.shape());
    const auto slopes = gradients({f(x, y, Origin::here())}, {x, y});
    const FedValues feeds = {{x, a}, {y, b}};
    const auto slope = [&](size_t i, const Tensor& like) {
      return slopes[i].defined() ? evaluate(slopes[i], feeds) : zeros(like.shape());
    };
    const auto wrong_a = difference(slope(0, a), da), wrong_b = difference(slope(1, b), db);
    CHECK_MESSAGE(!wrong_a, *wrong_a);
    CHECK_MESSAGE(!wrong_b, *wrong_b);
  };
  const Tensor nans_a = vector({NAN, 1, NAN, 2}), nans_b = vector({1, NAN, NAN, 2});
  check_slopes(fmax, nans_a, nans_b, vector({0, 1, 1, 1}), vector({1, 0, 0, 0}));
  check_slopes(fmin, nans_a, nans_b, vector({0, 1, 1, 1}), vector({1, 0, 0, 0}));
  // The quotient of 1 and 0.1, which is a bit more than a tenth, is 9.99..., not 10.
  check_slopes(fmod, vector({1, -1, 0, -7, 5}), vector({0.1, 0.1, 3, INFINITY, -2}),
               vector({1, 1, 1, 1, 1}), vector({-9, 9, 0, 0, 2}));
  check_slopes(copysign, vector({0.0, -0.0, -INFINITY, NAN, 3}), vector({1, -1, 2, 1, -0.0}),
               vector({0, 0, -1, 1, -1}), zeros({5}));
  check_slopes(heaviside, vector({0, -0.0, NAN, 1, INFINITY}), vector({1, NAN, 3, 4, NAN}),
               zeros({5}), vector({1, 1, 0, 0, 0}));
  check_slopes(log_add_exp2, vector({-INFINITY, INFINITY, -INFINITY, 7000}),
               vector({-INFINITY, INFINITY, 3, 7000}), vector({0.5, 0.5, 0, 0.5}),
               vector({0.5, 0.5, 1, 0.5}));
}

TEST_CASE("what nan_to_num replaces gets no gradient, not even a NaN") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {5}), dy = placeholder(graph, DType::f64, {5});
  const auto slopes = gradients({nan_to_num(x)}, {x}, {dy});
  const FedValues feeds = {{x, vector({2, NAN, INFINITY, -INFINITY, -0.0})},
                           {dy, vector({3, NAN, INFINITY, 4, 5})}};
  CHECK(!difference(evaluate(slopes[0], feeds), vector({3, 0, 0, 0, 5})));
}

TEST_CASE("zeros_like and ones_like have the shape and dtype of a value") {
  for (const Tensor& x :
       {matrix({{NAN, 2, 3}, {4, INFINITY, 6}}), f32(vector({1, 2})),
        converted(vector({1, 2}), DType::bf16), i32(vector({7, -8})), i64(scalar(9)),
        u8(vector({255, 3})), converted(vector({-128, 3}), DType::i8), booleans(vector({1, 0, 1})),
        zeros({3, 0})})
    for (const bool known : {true, false}) {
      CAPTURE(x);
      CAPTURE(known);
      Graph graph;
      const Output in = known_or_not(graph, x, known);
      const Output none = zeros_like(in), one = ones_like(in);
      CHECK(none.dtype() == x.dtype());
      CHECK(none.shape() == in.shape());
      CHECK(!difference(evaluate(none, {{in, x}}), zeros(x.shape(), x.dtype())));
      CHECK(!difference(evaluate(one, {{in, x}}), converted(full(x.shape(), 1), x.dtype())));
    }
}

TEST_CASE("zeros_like and ones_like are constant, and refuse what is no value") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {-1});
  const auto slopes = gradients({ones_like(x) * x + zeros_like(x)}, {x});
  CHECK(!difference(evaluate(slopes[0], {{x, vector({2, 5})}}), vector({1, 1})));
  CHECK_THROWS_WITH_AS(zeros_like(Output{}), doctest::Contains("its inputs are undefined Outputs"),
                       Error);
  CHECK_THROWS_WITH_AS(ones_like(Output{}), doctest::Contains("ones_like made at "), Error);
  CHECK_THROWS_WITH_AS(nan_to_num(Output{}), doctest::Contains("nan_to_num made at "), Error);
}

}  // namespace troupe
