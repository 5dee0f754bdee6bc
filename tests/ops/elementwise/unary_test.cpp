// Element-wise ops of one input, each against its definition. Functions of the C library are held
// to 4 units in the last place, arithmetic to the rounding of IEEE 754.
#include "tests/ops/elementwise/reference.hpp"

namespace troupe {
namespace {

const Real kPi = 3.14159265358979323846264338327950288L;

Real sigmoid_of(Real x) { return 1 / (1 + std::exp(-x)); }
// x * weight, 0 where the weight is.
Real weighted(Real x, Real weight) { return weight == 0 ? 0 : x * weight; }
Real softplus_of(Real x) { return std::max(x, Real{0}) + std::log1p(std::exp(-std::abs(x))); }
Real gelu_of(Real x) { return weighted(x, std::erfc(-x * std::sqrt(Real{0.5})) / 2); }
Real gelu_by_tanh(Real x) {
  return weighted(x, sigmoid_of(2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x)));
}
constexpr Real kSelu = 1.0507009873554804934193349852946L;
constexpr Real kSeluAlpha = 1.6732632423543772848170429916717L;
auto elu_of(Real alpha) {
  return [alpha](Real x) { return x > 0 ? x : alpha * std::expm1(x); };
}
auto leaky_relu_of(Real alpha) {
  return [alpha](Real x) { return x > 0 ? x : alpha * x; };
}
Real sign_of(Real x) { return std::isnan(x) ? x : (x > 0) - (x < 0); }

// x times what has a long tail: errors of the tail grow with x. The tables hold the rest to less.
constexpr double kTail = 4000;

const std::vector<double> around_zero = {0, 1, -2, 0.25, -0.75, 3},
                          positive = {1, 2, 0.25, 10, 0.5};
const std::vector<double> within_one = {0, 0.5, -0.75, 0.25, -0.1}, no_kink = {1, -2, 0.5, -4, 3.5};
const std::vector<double> no_step = {1.25, -1.75, 0.25, -0.25, 2.75};
const std::vector<double> halves = {0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3, -4, 0x1p52 + 1, -0x1p53};

// clang-format off
const std::vector<Unary> rows = {
    // ---- exponentials and logarithms ----
    {"Exp", [](Real x) { return std::exp(x); }, {around_zero}, {710, -745, -400}},
    {"Exp2", [](Real x) { return std::exp2(x); }, {around_zero}, {130, 2000, -2000}},
    {"Expm1", [](Real x) { return std::expm1(x); }, {around_zero}, {1e-10, -1e-20}},
    {"Log", [](Real x) { return std::log(x); }, {positive}, {1e-30, 1e30}},
    {"Log2", [](Real x) { return std::log2(x); }, {positive}, {0x1p-100, 0x1p100}},
    {"Log10", [](Real x) { return std::log10(x); }, {positive}, {1e-30, 1e30}},
    {"Log1p", [](Real x) { return std::log1p(x); }, {{0, 1, -0.5, 2.5, 0.1}}, {1e-10, -1, -2}},
    // ---- powers and roots ----
    of_numbers(Unary{"Square", {}, {no_kink}, {1e30}, kRounded}, [](auto x) { return x * x; }),
    {"Sqrt", [](Real x) { return std::sqrt(x); }, {positive}, {1e-30, 1e30}, kRounded},
    {"Rsqrt", [](Real x) { return 1 / std::sqrt(x); }, {positive}, {1e-30, 1e30}, 2},
    {"Cbrt", [](Real x) { return std::cbrt(x); }, {no_kink}, {1e-30, -1e30, 27, -8}},
    {"Reciprocal", [](Real x) { return 1 / x; }, {no_kink}, {1e-30, -1e30, 1e-320}, kRounded},
    // ---- trigonometry ----
    {"Sin", [](Real x) { return std::sin(x); }, {around_zero}, {1048576, 1e22, 0x1p60}},
    {"Cos", [](Real x) { return std::cos(x); }, {around_zero}, {1048576, 1e22, 0x1p60}},
    {"Tan", [](Real x) { return std::tan(x); }, {around_zero}, {1048576, 1e22, 0x1p60}},
    {"Asin", [](Real x) { return std::asin(x); }, {within_one}, {1 - 0x1p-50, 1.5}},
    {"Acos", [](Real x) { return std::acos(x); }, {within_one}, {1 - 0x1p-50, 1.5}},
    {"Atan", [](Real x) { return std::atan(x); }, {around_zero}, {1e30}},
    // ---- hyperbolic functions ----
    {"Sinh", [](Real x) { return std::sinh(x); }, {around_zero}, {100, 1000}},
    {"Cosh", [](Real x) { return std::cosh(x); }, {around_zero}, {100, 1000}},
    {"Tanh", [](Real x) { return std::tanh(x); }, {around_zero}, {50, 1e-4}},
    {"Asinh", [](Real x) { return std::asinh(x); }, {around_zero}, {1e30, 1e300}},
    {"Acosh", [](Real x) { return std::acosh(x); }, {{1.5, 2, 3, 10, 1.25}}, {1 + 0x1p-40, 1e300}},
    {"Atanh", [](Real x) { return std::atanh(x); }, {within_one}, {1 - 0x1p-50, 1.5}},
    // ---- rounding and signs ----
    {"Floor", [](Real x) { return std::floor(x); }, {no_step}, halves, kRounded},
    {"Ceil", [](Real x) { return std::ceil(x); }, {no_step}, halves, kRounded},
    {"Round", [](Real x) { return std::rint(x); }, {no_step}, halves, kRounded},
    {"Trunc", [](Real x) { return std::trunc(x); }, {no_step}, halves, kRounded},
    of_numbers(Unary{"Negate", {}, {no_kink}, {}, kRounded}, [](auto x) { return -x; }),
    of_numbers(Unary{"Abs", {}, {no_kink}, {}, kRounded, {}, false, /*signs=*/false},
        [](auto x) { return x < 0 ? -x : x; }),
    of_numbers(Unary{"Sign", {}, {no_kink}, {1e-30, 1e300}, kRounded, {}, false, /*signs=*/false},
        [](auto x) { return static_cast<decltype(x)>(sign_of(static_cast<Real>(x))); }),
    // ---- special functions ----
    {"Erf", [](Real x) { return std::erf(x); }, {around_zero}, {10, 1e-10}},
    {"Erfc", [](Real x) { return std::erfc(x); }, {around_zero}, {10, 26, 30, -10}},
    {"Lgamma", [](Real x) { return std::lgamma(x); }, {{1.5, 2.5, 0.5, 10, 4, -0.5, -1.25}},
        {-7.5, -20, 1 + 0x1p-40, 1e300}, 6},
    // ---- activations ----
    of_numbers(Unary{"Relu", {}, {no_kink}, {}, kRounded, {}, false, /*signs=*/false},
        [](auto x) { return x < 0 ? 0 : x; }),
    of_numbers(Unary{"Relu6", {}, {{1, -2, 7, 4, 5.75}}, {6}, kRounded,
        {}, false, /*signs=*/false}, [](auto x) { return x < 0 ? 0 : x > 6 ? 6 : x; }),
    {"LeakyRelu", leaky_relu_of(0.2), {no_kink}, {}, 1.1},
    {.op = "LeakyRelu", .real = leaky_relu_of(2), .at = {no_kink}, .attrs = {{"alpha", 2.0}}},
    {.op = "LeakyRelu", .real = leaky_relu_of(-1), .at = {no_kink}, .attrs = {{"alpha", -1.0}}},
    {"Elu", elu_of(1), {no_kink}, {-1e-10, 1e-10}},
    {.op = "Elu", .real = elu_of(2.5), .at = {no_kink}, .attrs = {{"alpha", 2.5}}},
    {"Selu", [](Real x) { return kSelu * (x > 0 ? x : kSeluAlpha * std::expm1(x)); }, {no_kink},
        {-1e-10}},
    {"Sigmoid", sigmoid_of, {around_zero}, {-87.5, -88.5, -95, -110, -709.5, -745, -750}, 6},
    {"HardSigmoid",
        [](Real x) { return std::isnan(x) ? x : std::min(std::max((x + 3) / 6, Real{0}),
        Real{1}); }, {no_kink}, {3, -3, 5, -5}, 2},
    {"Softsign",
        [](Real x) { return std::isinf(x) ? std::copysign(Real{1}, x) : x / (1 + std::abs(x)); },
        {no_kink}, {1e30}, 2},
    {"Silu", [](Real x) { return weighted(x, sigmoid_of(x)); }, {around_zero}, {-100, -700}, kTail,
        {}, false, /*signs=*/false},
    {"Softplus", softplus_of, {around_zero}, {100, -700}, 6},
    {"Mish", [](Real x) { return weighted(x, std::tanh(softplus_of(x))); }, {around_zero},
        {-100, -700}, kTail, {}, false, /*signs=*/false},
    {"Gelu", gelu_of, {around_zero}, {-10, 100}, kTail, {}, false, /*signs=*/false},
    {.op = "Gelu", .real = gelu_by_tanh, .at = {around_zero}, .odd = {-10, 100}, .ulps = kTail,
        .signs = false, .attrs = {{"approximate", true}}},
    // ---- tests, logic and bits ----
    {"IsFinite", [](Real x) { return std::isfinite(x); }, {no_kink}, {}, 0, {}, /*logical=*/true},
    {"IsNan", [](Real x) { return std::isnan(x); }, {no_kink}, {}, 0, {}, /*logical=*/true},
    {"IsInf", [](Real x) { return std::isinf(x); }, {no_kink}, {}, 0, {}, /*logical=*/true},
    {"Signbit", [](Real x) { return std::signbit(x); }, {no_kink}, {-NAN}, 0, {}, /*logical=*/true},
    of_integers(Unary{"LogicalNot", {}, {{0, 1, 1, 0}}}, [](Whole x) { return x == 0; }),
    of_integers(Unary{"Invert", {}, {{0, 1, -1, 100}}}, [](Whole x) { return ~x; }),
};
// clang-format on

// Cases of functions that the C library lacks, with values of mpmath.
std::vector<OpCase> by_value(const std::vector<double>& x, const std::vector<double>& y,
                             const std::vector<double>& odd_x, const std::vector<double>& odd_y,
                             bool twice) {
  return {{.name = "size one",
           .inputs = {tensor_of<double>({x[0]})},
           .expected = {tensor_of<double>({y[0]})},
           .twice = twice},
          {.name = "smooth",
           .inputs = {tensor_of(x)},
           .expected = {tensor_of(y)},
           .twice = twice,
           .gradient_tolerance = 1e-5},
          Case("not smooth", {tensor_of(odd_x)}, {tensor_of(odd_y)}).rough()};
}

const Table erfinv_table("Erfinv undoes Erf", [] {
  OpCases all = unary_cases(
      "Erfinv", i32(zeros({2})),
      by_value(
          {0, 0.5, -0.75, 0.25, -0.1, 0.84, -0.86},
          {0, 0.4769362762044699, -0.8134198475976185, 0.2253120550121781, -0.08885599049425769,
           0.9935356283473041, -1.0435418436397588},
          {0.9375, -0.984375, 1, -1, 1.5, -2, INFINITY, -INFINITY, NAN},
          {1.3171503349861307, -1.7094723742995115, INFINITY, -INFINITY, NAN, NAN, NAN, NAN, NAN},
          true));
  all.values.push_back(Case("Erfinv", "close to one and to zero",
                            {vector({1 - 0x1p-30, -1 + 0x1p-50, 1 - 0x1p-53})},
                            {vector({4.328028275800946, -5.686128441310391, 5.8635847487551676})})
                           .within(1e-14)
                           .as_typed()
                           .rough());
  all.values.push_back(Case("Erfinv", "close to zero", {vector({1e-10, -1e-20})},
                            {vector({8.862269254527581e-11, -8.86226925452758e-21})})
                           .within(1e-24)
                           .as_typed()
                           .rough());
  return all;
});

const Table digamma_table("Digamma is the slope of Lgamma", [] {
  OpCases all = unary_cases(
      "Digamma", i32(zeros({2})),
      by_value(
          {4, 1, 2.5, 0.5, 10, 9.75, 10.25, 30, -0.5, -1.25, -7.5},
          {1.2561176684318005, -0.5772156649015329, 0.7031566406452432, -1.9635100260214235,
           2.251752589066721, 2.225109535044576, 2.277704790686724, 3.384438132685525,
           0.03648997397857652, 3.714139120213528, 2.08009081757942},
          {0x1p-90, -0x1p-90, 1e30, 0, -0.0, -1, -20, INFINITY, -INFINITY, NAN},
          {-0x1p90, 0x1p90, 69.07755278982137, -INFINITY, INFINITY, NAN, NAN, INFINITY, NAN, NAN},
          /*twice=*/false));
  for (OpCase& c : all.values) c.twice = false;  // Trigamma has no gradient
  return all;
});

const Table trigamma_table("Trigamma is the slope of Digamma", [] {
  OpCases all = unary_cases(
      "Trigamma", i32(zeros({2})),
      by_value({4, 1, 2.5, 0.5, 10, 9.75, 10.25, 30, -0.5, -1.25, -7.5},
               {0.2838229557371153, 1.6449340668482264, 0.49035775610023485, 4.934802200544679,
                0.10516633568168575, 0.10800324333663186, 0.10247452151799187, 0.033895060357739946,
                8.934802200544679, 19.181879647671607, 9.744766282170433},
               {0x1p-50, 0, -1, -20, INFINITY, -INFINITY, NAN},
               {0x1p100, INFINITY, INFINITY, INFINITY, 0, NAN, NAN}, true));
  all.values.push_back(Case("Trigamma", "huge", {vector({1e30})}, {vector({9.999999999999999e-31})})
                           .within(1e-44)
                           .as_typed()
                           .rough());
  return all;
});

const Table table("ops of one element have the values, gradients and refusals of their rows", [] {
  OpCases all;
  for (const Unary& row : rows) {
    const OpCases one = cases_of(row);
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
    all.errors.insert(all.errors.end(), one.errors.begin(), one.errors.end());
  }
  for (const char* op : {"LeakyRelu", "Elu"})
    all.errors.push_back(
        Refused(op, {zeros({2})}, "wants a finite alpha, got inf", {{"alpha", INFINITY}}));
  return all;
});

}  // namespace

TEST_CASE("ops of one element are near their definitions in every dtype, for numbers of any size") {
  for (const Unary& row : rows) sweep(row);
}

TEST_CASE("the value of an element does not depend on where it stands") {
  for (const Unary& row : rows) {
    if (!row.real || row.logical) continue;
    const double x = row.at[0][1];  // where the op has a value
    const float alone = result_of(row, {f32(full({1}, x))}).item<float>();
    const Tensor many = result_of(row, {f32(full({53}, x))});
    for (const float value : many.values<float>()) CHECK_MESSAGE(value == alone, row.op);
  }
}

TEST_CASE("the gradients of Asinh and Acosh do not overflow before the functions do") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{1});
  for (const Output y : {asinh(x), acosh(x)}) {
    const float slope = evaluate(gradients({y}, {x})[0], {{x, f32(vector({1e30}))}}).item<float>();
    CHECK(slope == doctest::Approx(1e-30).epsilon(1e-4).scale(0));
  }
}

TEST_CASE("an attribute is an argument with a default") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{});
  const FedValues feeds = {{x, scalar(-1)}};
  CHECK(evaluate(leaky_relu(x), feeds).item<double>() == -0.2);
  CHECK(evaluate(leaky_relu(x, 0.5), feeds).item<double>() == -0.5);
  const double one = evaluate(elu(x), feeds).item<double>();
  CHECK(evaluate(elu(x, 2), feeds).item<double>() == 2 * one);
  const auto near = [&](Output y, Real wanted) {
    CHECK(evaluate(y, feeds).item<double>() ==
          doctest::Approx(static_cast<double>(wanted)).epsilon(1e-12));
  };
  near(gelu(x), gelu_of(-1));
  near(gelu(x, true), gelu_by_tanh(-1));
}

}  // namespace troupe
