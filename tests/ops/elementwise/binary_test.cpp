// Element-wise ops of two inputs, each against its definition, and broadcasting, which they share.
#include "tests/ops/elementwise/reference.hpp"

namespace troupe {
namespace {

const auto not_zero = [](Whole b) { return b != 0; };
const auto not_negative = [](Whole b) { return b >= 0; };

Real mod_of(Real a, Real b) {
  const Real rest = std::fmod(a, b);
  return rest == 0 ? std::copysign(Real{0}, b) : (rest < 0) != (b < 0) ? rest + b : rest;
}
Real floor_divide_of(Real a, Real b) {
  if (b == 0) return a / b;
  const Real rest = std::fmod(a, b), cut = std::rint((a - rest) / b);
  const Real down = rest != 0 && (rest < 0) != (b < 0) ? cut - 1 : cut;
  return down == 0 ? std::copysign(Real{0}, a / b) : down;
}
Whole floor_of(Whole a, Whole b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
Real log_add_exp_of(Real a, Real b) {
  if (a == b) return a + std::log(Real{2});
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}
Whole power_of(Whole a, Whole b) {  // modulo 2^128
  unsigned __int128 base = static_cast<unsigned __int128>(a), power = 1;
  for (; b != 0; b >>= 1, base *= base)
    if (b & 1) power *= base;
  return static_cast<Whole>(power);
}

// Divisors and bases that keep away from steps and kinks.
const std::vector<double> a = {5, -7, 9.5, 1.25, -0.5}, b = {2, 3.25, -4, 0.75, 11};
const std::vector<double> bits = {12, 255, 0, 170}, some = {10, 15, 7, 85};
const std::vector<double> both_bits = {0, 0, 1, 1}, other_bits = {0, 1, 0, 1};

template <class Row>
Row with_divisors(Row row, std::function<Whole(Whole, Whole)> whole) {
  row = of_integers(std::move(row), std::move(whole));
  row.takes = not_zero;
  row.refused = booleans(zeros({2}));
  return row;
}
Binary shift(const char* op, Whole (*whole)(Whole, Whole)) {
  Binary row = of_integers(Binary{op, {}, {{1, 12, 127, 7}, {0, 2, 4, 3}}}, whole);
  row.takes = not_negative;
  return row;
}
template <class F>
Binary comparison_row(const char* op, F f) {
  Binary row = of_numbers(Binary{op, {}, {a, b}, {0.1}, 0}, f);
  row.logical = true;
  if (op == std::string("Equal") || op == std::string("NotEqual")) row.refused = Tensor{};
  return row;
}
// Either zero may be chosen of two.
template <class F>
Binary choice_row(const char* op, F f) {
  Binary row = of_numbers(Binary{op, {}, {a, b}, {}, kRounded}, f);
  row.signs = false;
  return row;
}
Binary logic_row(const char* op, std::function<Whole(Whole, Whole)> whole) {
  return of_integers(Binary{op, {}, {both_bits, other_bits}}, std::move(whole));
}
Binary bit_row(const char* op, std::function<Whole(Whole, Whole)> whole) {
  return of_integers(Binary{op, {}, {bits, some}}, std::move(whole));
}

Real squared(Real x) { return x * x; }
Whole squared(Whole x) {  // the low bits
  const auto bits = static_cast<unsigned __int128>(x);
  return static_cast<Whole>(bits * bits);
}

// clang-format off
std::vector<Binary> made_rows() {
  std::vector<Binary> rows = {
    // ---- arithmetic ----
    of_numbers(Binary{"Add", {}, {a, b}, {0.1}, kRounded}, [](auto x, auto y) { return x + y; }),
    of_numbers(Binary{"Subtract", {}, {a, b}, {0.1}, kRounded},
        [](auto x, auto y) { return x - y; }),
    of_numbers(Binary{"Multiply", {}, {a, b}, {0.1}, kRounded},
        [](auto x, auto y) { return x * y; }),
    of_numbers(Binary{"SquaredDifference", {}, {a, b}, {1e200}, 2},
        [](auto x, auto y) { return squared(x - y); }),
    // ---- divisions ----
    with_divisors(Binary{"Divide", [](Real x, Real y) { return x / y; }, {a, b}, {0.1}, kRounded},
        [](Whole x, Whole y) { return x / y; }),
    with_divisors(Binary{"FloorDivide", floor_divide_of, {a, b}, {0.1, 0.3, 6}, 2}, floor_of),
    with_divisors(Binary{"Mod", mod_of, {a, b}, {0.1, 0.3, 6, 7}, kRounded},
        [](Whole x, Whole y) { return x - y * floor_of(x, y); }),
    with_divisors(Binary{"Fmod", [](Real x, Real y) { return std::fmod(x, y); }, {a, b},
        {0.1, 0.3, 6, 7}, kRounded}, [](Whole x, Whole y) { return x % y; }),
    // ---- choices ----
    choice_row("Maximum", [](auto x, auto y) { return x != x ? x : y != y ? y : x > y ? x : y; }),
    choice_row("Minimum", [](auto x, auto y) { return x != x ? x : y != y ? y : x < y ? x : y; }),
    choice_row("Fmax", [](auto x, auto y) { return x != x ? y : y != y ? x : x > y ? x : y; }),
    choice_row("Fmin", [](auto x, auto y) { return x != x ? y : y != y ? x : x < y ? x : y; }),
    of_numbers(Binary{"Heaviside", {}, {a, b}, {}, kRounded},
        [](auto x, auto y) { return x != x ? x : x == 0 ? y : decltype(x)(x > 0); }),
    {"Copysign", [](Real x, Real y) { return std::copysign(x, y); }, {a, b}, {-NAN}, kRounded},
    // ---- functions of two numbers ----
    {"Pow", [](Real x, Real y) { return std::pow(x, y); }, {{2, 0.3, 1.5, 3, 10},
        {0.5, 2.5, -2.25, 3, 2}}, {0.5, 2, 3, 300, 1e200}, 4,
        [](auto x) { return power_of(x[0], x[1]); }, false, true, booleans(zeros({2})),
        not_negative},
    {"Atan2", [](Real y, Real x) { return std::atan2(y, x); }, {a, b}, {0.5}},
    {"Hypot", [](Real x, Real y) { return std::hypot(x, y); }, {a, b}, {3e30, 4e-30, 1e200}},
    {"LogAddExp", log_add_exp_of, {{0, 1, -3, 0.1}, {0.3, 2, 0.5, -1}}, {-1001, 1000}, 16},
    {"Xlogy", [](Real x, Real y) { return x == 0 && !std::isnan(y) ? 0 : x * std::log(y); }, {a,
        {3, 0.25, 10, 1.5}}, {0.5}, 5, {}, false, /*signs=*/false},
    // ---- comparisons ----
    comparison_row("Equal", [](auto x, auto y) { return x == y; }),
    comparison_row("NotEqual", [](auto x, auto y) { return x != y; }),
    comparison_row("Less", [](auto x, auto y) { return x < y; }),
    comparison_row("LessEqual", [](auto x, auto y) { return x <= y; }),
    comparison_row("Greater", [](auto x, auto y) { return x > y; }),
    comparison_row("GreaterEqual", [](auto x, auto y) { return x >= y; }),
    // ---- logic and bits ----
    logic_row("LogicalAnd", [](Whole x, Whole y) { return x & y; }),
    logic_row("LogicalOr", [](Whole x, Whole y) { return x | y; }),
    logic_row("LogicalXor", [](Whole x, Whole y) { return x ^ y; }),
    bit_row("BitwiseAnd", [](Whole x, Whole y) { return x & y; }),
    bit_row("BitwiseOr", [](Whole x, Whole y) { return x | y; }),
    bit_row("BitwiseXor", [](Whole x, Whole y) { return x ^ y; }),
    shift("LeftShift", [](Whole x, Whole y) { return y < 64 ? x * (Whole{1} << y) : 0; }),
    shift("RightShift", [](Whole x, Whole y) { return x >> std::min(y, Whole{64}); }),
  };
  return rows;
}
// clang-format on
const std::vector<Binary> rows = made_rows();

// x^power, so that only x is differentiated.
BuildCase to_the(double power) {
  return [power](Graph& graph, const std::vector<Output>& x) {
    return std::vector{pow(x[0], fill(graph, Shape{}, power, x[0].dtype()))};
  };
}

// Besides: broadcasts of many dimensions, graphs of one input, and values that are refused.
const Table table("ops of two elements have the values, gradients and refusals of their rows", [] {
  OpCases all = table_of(
      "Add",
      {Case("repeated outside, inside and between", {iota({1, 2, 1, 2}), iota({2, 1, 3, 1}, 0, 10)},
            {values({2, 2, 3, 2}, {0,  1,  10, 11, 20, 21, 2,  3,  12, 13, 22, 23,
                                   30, 31, 40, 41, 50, 51, 32, 33, 42, 43, 52, 53})}),
       Case("five dimensions", {full({2, 1, 2, 1, 2}, 1), full({3, 1, 2, 1}, 2)},
            {full({2, 3, 2, 2, 2}, 3)}),
       Case("an empty dimension repeats size one", {zeros({2, 0}), vector({1})}, {zeros({2, 0})}),
       Case("x + x", {vector({1, 2})}, {vector({2, 4})})
           .made_by([](Graph&, const std::vector<Output>& in) {
             return std::vector{add(in[0], in[0])};
           }),
       Case("Divide", "no integers by zero", {i32(zeros({0})), i32(vector({0}))}, {i32(zeros({0}))})
           .as_typed(),
       Case("Heaviside", "a slope for what stands at zero", {vector({0.5, 3})},
            {matrix({{0.5, 1}, {0, 3}})})
           .as_typed()
           .made_by([](Graph& graph, const std::vector<Output>& x) {
             return std::vector{heaviside(constant(graph, matrix({{0, 1}, {-2, 0}})), x[0])};
           }),
       Case("Pow", "a square, also at 0", {vector({-1.5, 0, 2})}, {vector({2.25, 0, 4})})
           .made_by(to_the(2)),
       Case("Pow", "a cube of negative numbers", {vector({-2, 0.5})}, {vector({-8, 0.125})})
           .made_by(to_the(3)),
       Case("Pow", "no power", {vector({-1, 0, 3})}, {vector({1, 1, 1})}).made_by(to_the(0))},
      {Refused({zeros({0}), zeros({2})}, "shapes do not broadcast: [0] and [2]"),
       Refused({booleans(zeros({2})), booleans(zeros({2}))},
               "has no kernel for bool; cast to one of f32, f64, i32, i64, u8"),
       Refused("Equal", {zeros({2}), i32(zeros({2}))},
               "compares values of one dtype, got f64 and i32; cast one of them"),
       Refused("Pow", {i32(vector({1, 2})), i32(vector({1, -1}))},
               "raises an integer to a negative power: element 1 of b is -1")
           .in_step(),
       Refused("LeftShift", {i32(vector({1, 2})), i32(vector({1, -1}))},
               "shifts by a negative number of bits: element 1 of b is -1")
           .in_step(),
       Refused("RightShift", {i64(vector({1, 2})), i64(vector({-3, 1}))},
               "shifts by a negative number of bits: element 0 of b is -3")
           .in_step()});
  for (const char* op : {"Divide", "FloorDivide", "Mod", "Fmod"}) {
    all.errors.push_back(Refused(op, {i32(vector({1, 2})), i32(vector({1, 0}))},
                                 "divides an integer by zero: element 1 of b")
                             .in_step());
    all.errors.push_back(Refused(op, {u8(vector({1, 2})), u8(scalar(0))},
                                 "divides an integer by zero: element 0 of b")
                             .in_step());
  }
  for (const Binary& row : rows) {
    const OpCases one = cases_of(row);
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
    all.errors.insert(all.errors.end(), one.errors.begin(), one.errors.end());
  }
  return all;
});

}  // namespace

TEST_CASE("ops of two elements are near their definitions in every dtype, at its ends, too") {
  for (const Binary& row : rows) sweep(row);
}

TEST_CASE("sizes known only in part are checked when the step runs") {
  // The result is known to be [4] before x is: only the kernel can refuse an x of three elements.
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{-1});
  const Output y = placeholder(graph, DType::f32, Shape{4});
  const Output sum = add(x, y);
  CHECK(sum.shape() == Shape{4});
  const Tensor four = f32(vector({1, 2, 3, 4}));
  CHECK(same_bits(evaluate(sum, {{x, f32(vector({1}))}, {y, four}}), f32(vector({2, 3, 4, 5}))));
  CHECK_THROWS_WITH_AS(evaluate(sum, {{x, f32(vector({1, 2, 3}))}, {y, four}}),
                       doctest::Contains("shapes do not broadcast: [3] and [4]"), Error);
}

TEST_CASE("gradients at kinks and beside NaN go to one side, and are numbers") {
  Graph graph;
  const auto check_slopes = [&](Output (*f)(Operand, Operand, Origin), const Tensor& of_a,
                                const Tensor& of_b, const Tensor& da, const Tensor& db) {
    const Output x = placeholder(graph, DType::f64, of_a.shape()),
                 y = placeholder(graph, DType::f64, of_b.shape());
    const auto slopes = gradients({f(x, y, Origin::here())}, {x, y});
    const FedValues feeds = {{x, of_a}, {y, of_b}};
    const auto slope = [&](size_t i, const Tensor& like) {
      return slopes[i].defined() ? evaluate(slopes[i], feeds) : zeros(like.shape());
    };
    const auto wrong_a = difference(slope(0, of_a), da), wrong_b = difference(slope(1, of_b), db);
    CHECK_MESSAGE(!wrong_a, *wrong_a);
    CHECK_MESSAGE(!wrong_b, *wrong_b);
  };
  const Tensor nans_a = vector({NAN, 1, NAN, 2}), nans_b = vector({1, NAN, NAN, 2});
  check_slopes(fmax, nans_a, nans_b, vector({0, 1, 1, 1}), vector({1, 0, 0, 0}));
  check_slopes(fmin, nans_a, nans_b, vector({0, 1, 1, 1}), vector({1, 0, 0, 0}));
  check_slopes(maximum, vector({1, 3}), vector({1, 4}), vector({1, 0}), vector({0, 1}));
  check_slopes(minimum, vector({1, 3}), vector({1, 2}), vector({1, 0}), vector({0, 1}));
  // The quotient of 1 and 0.1, which is a bit more than a tenth, is 9.99..., not 10.
  check_slopes(fmod, vector({1, -1, 0, -7, 5}), vector({0.1, 0.1, 3, INFINITY, -2}),
               vector({1, 1, 1, 1, 1}), vector({-9, 9, 0, 0, 2}));
  check_slopes(copysign, vector({0.0, -0.0, -INFINITY, NAN, 3}), vector({1, -1, 2, 1, -0.0}),
               vector({0, 0, -1, 1, -1}), zeros({5}));
  check_slopes(heaviside, vector({0, -0.0, NAN, 1, INFINITY}), vector({1, NAN, 3, 4, NAN}),
               zeros({5}), vector({1, 1, 0, 0, 0}));
  check_slopes(pow, vector({0, 0, -2, 0}), vector({0, 2, 3, -1}), vector({0, 0, 12, -INFINITY}),
               zeros({4}));
  check_slopes(hypot, vector({0, 3}), vector({0, 4}), vector({0, 0.6}), vector({0, 0.8}));
  check_slopes(xlogy, vector({0, 0, 1}), vector({0, 1, 0}), vector({0, 0, -INFINITY}),
               vector({0, 0, INFINITY}));
  check_slopes(log_add_exp, vector({-INFINITY, INFINITY, -INFINITY, NAN}),
               vector({-INFINITY, INFINITY, 3, 1}), vector({0.5, 0.5, 0, NAN}),
               vector({0.5, 0.5, 1, NAN}));
  check_slopes(log_add_exp2, vector({-INFINITY, INFINITY, -INFINITY, 7000}),
               vector({-INFINITY, INFINITY, 3, 7000}), vector({0.5, 0.5, 0, 0.5}),
               vector({0.5, 0.5, 1, 0.5}));
}

}  // namespace troupe
