// Operators, and element-wise functions besides those of troupe/ops.hpp. They broadcast as NumPy
// does. The conventions of troupe/ops.hpp hold for these functions.
#pragma once

#include <concepts>
#include <optional>

#include "troupe/graph.hpp"

namespace troupe {

// ---- operators ----

// An argument of an operator or of a function of two inputs: an Output, or a number that becomes a
// constant of the other side's dtype: less(i, 100), maximum(x, 0.0). A fraction beside integers is
// refused, and beside i64 a number of 2^53 and more, which a double may round. Its constructor
// records the caller's line, as an operator has no parameter for it.
struct Operand {
  Operand(Output value, Origin at = Origin::here())
      : value(value), at(at) {}  // NOLINT: meant to convert
  Operand(double number, Origin at = Origin::here()) : number(number), at(at) {}  // NOLINT
  template <std::same_as<bool> Truth>  // true and false are no numbers
  Operand(Truth, Origin = {}) = delete;
  Output value;
  std::optional<double> number;
  Origin at;
};

Output operator+(Operand a, Operand b);
Output operator-(Operand a, Operand b);
Output operator*(Operand a, Operand b);
Output operator/(Operand a, Operand b);
Output operator%(Operand a, Operand b);  // mod
Output operator&(Operand a, Operand b);  // bitwise_and, bitwise_or, bitwise_xor
Output operator|(Operand a, Operand b);
Output operator^(Operand a, Operand b);
Output operator-(Operand x);
// Masks, bool: equal, not_equal, less and so on, element by element. A mask is no condition of the
// program, so `if (a == b)` does not compile; Output::is() compares the Outputs themselves.
Output operator==(Operand a, Operand b);
Output operator!=(Operand a, Operand b);
Output operator<(Operand a, Operand b);
Output operator<=(Operand a, Operand b);
Output operator>(Operand a, Operand b);
Output operator>=(Operand a, Operand b);

// ---- one input ----
// For floats unless said otherwise; the result is NaN where the function is undefined. Functions
// that the C library has are within 4 units in the last place.

Output abs(Output x, Origin at = Origin::here());   // signed numbers
Output sign(Output x, Origin at = Origin::here());  // -1, 0 or 1; signed numbers
// To integers, which stay floats. The gradient of these, and of sign, is zero.
Output floor(Output x, Origin at = Origin::here());
Output ceil(Output x, Origin at = Origin::here());
Output round(Output x, Origin at = Origin::here());       // half to even
Output trunc(Output x, Origin at = Origin::here());       // towards zero
Output reciprocal(Output x, Origin at = Origin::here());  // 1 / x
Output rsqrt(Output x, Origin at = Origin::here());       // 1 / sqrt(x)
Output expm1(Output x, Origin at = Origin::here());       // e^x - 1
Output log1p(Output x, Origin at = Origin::here());       // log(1 + x)
Output log2(Output x, Origin at = Origin::here());
Output log10(Output x, Origin at = Origin::here());
Output exp2(Output x, Origin at = Origin::here());  // 2^x
Output cbrt(Output x, Origin at = Origin::here());  // of negative numbers, too
// Angles are in radians.
Output sin(Output x, Origin at = Origin::here());
Output cos(Output x, Origin at = Origin::here());
Output tan(Output x, Origin at = Origin::here());
Output asin(Output x, Origin at = Origin::here());
Output acos(Output x, Origin at = Origin::here());
Output atan(Output x, Origin at = Origin::here());
Output sinh(Output x, Origin at = Origin::here());
Output cosh(Output x, Origin at = Origin::here());
Output asinh(Output x, Origin at = Origin::here());
Output acosh(Output x, Origin at = Origin::here());
Output atanh(Output x, Origin at = Origin::here());
Output erf(Output x, Origin at = Origin::here());
Output erfc(Output x, Origin at = Origin::here());      // 1 - erf(x)
Output erfinv(Output x, Origin at = Origin::here());    // the number whose erf is x
Output lgamma(Output x, Origin at = Origin::here());    // log(|gamma(x)|)
Output digamma(Output x, Origin at = Origin::here());   // its derivative
Output trigamma(Output x, Origin at = Origin::here());  // its derivative, which has no gradient
// The result is bool, except for bitwise_not. These have no gradient.
Output is_finite(Output x, Origin at = Origin::here());  // neither infinite nor NaN
Output is_nan(Output x, Origin at = Origin::here());
Output is_inf(Output x, Origin at = Origin::here());
Output signbit(Output x, Origin at = Origin::here());      // for floats: below zero, or -0
Output logical_not(Output x, Origin at = Origin::here());  // for bool
Output bitwise_not(Output x, Origin at = Origin::here());  // for i32, i64 and u8; the op is Invert

// x with these numbers in place of NaN and infinities; without a number of its own, an infinite
// element becomes the largest or the lowest number of x's dtype. The gradient is 0 there.
struct NanToNum {
  double nan = 0;
  std::optional<double> positive, negative;
};
Output nan_to_num(Output x, const NanToNum& numbers = {}, Origin at = Origin::here());

// ---- activations ----
// For floats; relu6 for signed numbers.

Output relu6(Output x, Origin at = Origin::here());  // min(max(x, 0), 6)
// x where x > 0, else alpha * x.
Output leaky_relu(Output x, double alpha = 0.2, Origin at = Origin::here());
// x where x > 0, else alpha * (e^x - 1).
Output elu(Output x, double alpha = 1, Origin at = Origin::here());
// elu with the scale and the alpha that keep mean 0 and variance 1 (Klambauer et al. 2017).
Output selu(Output x, Origin at = Origin::here());
// x times the probability that a standard normal number is below x; `approximate`: by its formula
// with tanh, which differs by up to 5e-4.
Output gelu(Output x, bool approximate = false, Origin at = Origin::here());
Output silu(Output x, Origin at = Origin::here());          // x * sigmoid(x)
Output softplus(Output x, Origin at = Origin::here());      // log(1 + e^x)
Output softsign(Output x, Origin at = Origin::here());      // x / (1 + |x|)
Output hard_sigmoid(Output x, Origin at = Origin::here());  // min(max((x + 3) / 6, 0), 1)
Output mish(Output x, Origin at = Origin::here());          // x * tanh(softplus(x))

// ---- two inputs: one of them may be a number, as beside an operator ----

// For numbers. An integer that is divided by zero or raised to a negative power fails the step.
Output minimum(Operand a, Operand b, Origin at = Origin::here());       // NaN if either is NaN
Output pow(Operand a, Operand b, Origin at = Origin::here());           // a^b
Output mod(Operand a, Operand b, Origin at = Origin::here());           // with the sign of b
Output floor_divide(Operand a, Operand b, Origin at = Origin::here());  // floor(a / b)
Output fmod(Operand a, Operand b, Origin at = Origin::here());          // with the sign of a
Output fmax(Operand a, Operand b, Origin at = Origin::here());  // the other one if one is NaN
Output fmin(Operand a, Operand b, Origin at = Origin::here());  // the other one if one is NaN
// 0 where x < 0, 1 where x > 0, `at_zero` where x = 0; NaN where x is NaN. Its gradient with
// respect to x is zero.
Output heaviside(Operand x, Operand at_zero, Origin at = Origin::here());
Output squared_difference(Operand a, Operand b, Origin at = Origin::here());  // (a - b)^2
// x clamped to [low, high], numbers of its dtype or infinite. For numbers.
Output clip(Output x, double low, double high, Origin at = Origin::here());
// For numbers, `not_equal` also for bool. The result is bool.
Output not_equal(Operand a, Operand b, Origin at = Origin::here());
Output less(Operand a, Operand b, Origin at = Origin::here());
Output less_equal(Operand a, Operand b, Origin at = Origin::here());
Output greater_equal(Operand a, Operand b, Origin at = Origin::here());
// For bool.
Output logical_and(Operand a, Operand b, Origin at = Origin::here());
Output logical_or(Operand a, Operand b, Origin at = Origin::here());
Output logical_xor(Operand a, Operand b, Origin at = Origin::here());
// For i32, i64, u8 and bool; also the operators & | ^.
Output bitwise_and(Operand a, Operand b, Origin at = Origin::here());
Output bitwise_or(Operand a, Operand b, Origin at = Origin::here());
Output bitwise_xor(Operand a, Operand b, Origin at = Origin::here());
// For i32, i64 and u8: a * 2^b, and a / 2^b rounded down. A negative b fails the step.
Output left_shift(Operand a, Operand b, Origin at = Origin::here());
Output right_shift(Operand a, Operand b, Origin at = Origin::here());
// For floats.
Output log_add_exp(Operand a, Operand b, Origin at = Origin::here());   // log(e^a + e^b)
Output log_add_exp2(Operand a, Operand b, Origin at = Origin::here());  // log2(2^a + 2^b)
Output copysign(Operand a, Operand b, Origin at = Origin::here());      // |a| with the sign of b
Output atan2(Operand y, Operand x, Origin at = Origin::here());         // the angle of (x, y)
Output hypot(Operand a, Operand b, Origin at = Origin::here());         // sqrt(a^2 + b^2)
Output xlogy(Operand a, Operand b, Origin at = Origin::here());         // a * log(b), 0 where a = 0

}  // namespace troupe
