// Exponentials and logarithms. A logarithm is -infinity at 0 and NaN below.
#include <numbers>

#include "ops/elementwise/number.hpp"
#include "ops/elementwise/rows.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Equal infinities share the gradient.
Pair log_add_exp_gradient(Output a, Output b, Output, Output dc) {
  const Output d = subtract(a, b);
  const Output known = logical_or(equal(d, d), not_equal(a, b));
  const Output apart = where(known, d, constant_like(0, d));
  return {undo_broadcast(multiply(dc, sigmoid(apart)), a),
          undo_broadcast(multiply(dc, sigmoid(negate(apart))), b)};
}

// Both gradients are 0 where a = 0 and b <= 0.
Pair xlogy_gradient(Output a, Output b, Output, Output dc) {
  const Output zero = constant_like(0, b);
  const Output flat = logical_and(equal(a, zero), less_equal(b, zero));
  const Output safe = where(flat, constant_like(1, b), b);
  return {undo_broadcast(multiply(dc, log(safe)), a),
          undo_broadcast(multiply(dc, divide(a, safe)), b)};
}

}  // namespace

std::vector<Op> exponential_ops() {
  return {
      // y = e^x
      unary({.name = "Exp",
             .gradient = dx<[](Output, Output y, Output dy) { return multiply(dy, y); }>,
             .kernels = math_kernels<[](auto x) { return math::exp(x); }>(),
             .precision = Precision::wide}),
      // y = 2^x
      unary({.name = "Exp2",
             .gradient = dx<[](Output, Output y, Output dy) { return dy * y * std::numbers::ln2; }>,
             .kernels = math_kernels<[](auto x) { return math::exp2(x); }>(),
             .precision = Precision::wide}),
      // y = e^x - 1, exact where x is close to 0
      unary({.name = "Expm1",
             .gradient = dx<[](Output, Output y, Output dy) { return dy * (y + 1); }>,
             .kernels = math_kernels<[](auto x) { return math::expm1(x); }>(),
             .precision = Precision::wide}),
      // y = the natural logarithm of x
      unary({.name = "Log",
             .gradient = dx<[](Output x, Output, Output dy) { return divide(dy, x); }>,
             .kernels = math_kernels<[](auto x) { return math::log(x); }>(),
             .precision = Precision::wide}),
      // y = the logarithm of x to base 2
      unary(
          {.name = "Log2",
           .gradient = dx<[](Output x, Output, Output dy) { return dy / (x * std::numbers::ln2); }>,
           .kernels = math_kernels<[](auto x) { return math::log2(x); }>(),
           .precision = Precision::wide}),
      // y = the logarithm of x to base 10
      unary({.name = "Log10",
             .gradient =
                 dx<[](Output x, Output, Output dy) { return dy / (x * std::numbers::ln10); }>,
             .kernels = math_kernels<[](auto x) { return math::log10(x); }>(),
             .precision = Precision::wide}),
      // y = log(1 + x), exact where x is close to 0
      unary({.name = "Log1p",
             .gradient = dx<[](Output x, Output, Output dy) { return dy / (1 + x); }>,
             .kernels = math_kernels<[](auto x) { return math::log1p(x); }>(),
             .precision = Precision::wide}),
      // c = log(e^a + e^b), finite for all finite a and b. With m the greater of both, that is
      // m + log(1 + e^-|a - b|), also of equal infinities. Its slopes are e^(a - c) = sigmoid(a -
      // b)
      // and sigmoid(b - a).
      binary({.name = "LogAddExp",
              .gradient = da_db<log_add_exp_gradient>,
              .kernels = math_kernels<[]<class T>(T a, T b) {
                const T apart = a == b ? T{0} : a < b ? a - b : b - a;
                return Maximum::apply(a, b) + math::log1p(math::exp(apart));
              }>(),
              .precision = Precision::wide}),
      // c = a * log(b), and 0 where a = 0, unless b is NaN: the term of an entropy, also where a
      // probability is 0. Its slopes are log(b) and a / b.
      binary({.name = "Xlogy",
              .gradient = da_db<xlogy_gradient>,
              .kernels = math_kernels<[]<class T>(T a, T b) {
                const T product = a * math::log(b);
                return ((a == 0) & (b == b)) ? T{0} : product;
              }>(),
              .precision = Precision::wide}),
  };
}

Output exp(Output x, Origin at) { return node_of("Exp", {x}, at); }
Output exp2(Output x, Origin at) { return node_of("Exp2", {x}, at); }
Output expm1(Output x, Origin at) { return node_of("Expm1", {x}, at); }
Output log(Output x, Origin at) { return node_of("Log", {x}, at); }
Output log2(Output x, Origin at) { return node_of("Log2", {x}, at); }
Output log10(Output x, Origin at) { return node_of("Log10", {x}, at); }
Output log1p(Output x, Origin at) { return node_of("Log1p", {x}, at); }
Output log_add_exp(Operand a, Operand b, Origin at) { return node_of("LogAddExp", a, b, at); }
Output xlogy(Operand a, Operand b, Origin at) { return node_of("Xlogy", a, b, at); }

// log2(2^a + 2^b), made of ops. With m the greater of both, that is
// m + log(e^((a - m) ln 2) + e^((b - m) ln 2)) / ln 2. So large numbers keep their digits, and one
// that is far greater is the result. The slope of m itself is 0 in all, so m counts as a constant.
// An m that is infinite or NaN would make NaN of equal infinities, and log_add_exp needs none.
Output log_add_exp2(Operand first, Operand second, Origin at) {
  const auto [a, b] = outputs_of("log_add_exp2", first, second, at);
  const Output greater = maximum(a, b, at), zero = constant_like(0, greater, at);
  const Output m = stop_gradient(where(is_finite(greater, at), greater, zero, at), at);
  const Output ln2 = constant_like(std::numbers::ln2, m, at);
  const Output apart =
      log_add_exp(multiply(subtract(a, m, at), ln2, at), multiply(subtract(b, m, at), ln2, at), at);
  return add(m, divide(apart, ln2, at), at);
}

}  // namespace troupe
