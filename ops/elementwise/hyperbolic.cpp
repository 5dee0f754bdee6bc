// Hyperbolic functions and their inverses.
#include "ops/elementwise/rows.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {

std::vector<Op> hyperbolic_ops() {
  return {
      // y = (e^x - e^-x) / 2
      unary({.name = "Sinh",
             .gradient = dx<[](Output x, Output, Output dy) { return dy * cosh(x); }>,
             .kernels = math_kernels<[](auto x) { return math::sinh(x); }>(),
             .precision = Precision::wide}),
      // y = (e^x + e^-x) / 2
      unary({.name = "Cosh",
             .gradient = dx<[](Output x, Output, Output dy) { return dy * sinh(x); }>,
             .kernels = math_kernels<[](auto x) { return math::cosh(x); }>(),
             .precision = Precision::wide}),
      // y = sinh(x) / cosh(x)
      unary({.name = "Tanh",
             .gradient = dx<[](Output, Output y, Output dy) {
               return multiply(dy, subtract(constant_like(1, y), square(y)));
             }>,
             .kernels = math_kernels<[](auto x) { return math::tanh(x); }>()}),
      // y = the number whose sinh is x, log(x + sqrt(x^2 + 1)). Its slope is 1 / sqrt(x^2 + 1),
      // without a square that overflows.
      unary({.name = "Asinh",
             .gradient = dx<[](Output, Output y, Output dy) { return dy / cosh(y); }>,
             .kernels = math_kernels<[](auto x) { return math::asinh(x); }>()}),
      // y = the number in [0, infinity] whose cosh is x, log(x + sqrt(x^2 - 1)); NaN below 1. Its
      // slope is 1 / sqrt(x^2 - 1), without a square that overflows.
      unary({.name = "Acosh",
             .gradient = dx<[](Output, Output y, Output dy) { return dy / sinh(y); }>,
             .kernels = math_kernels<[](auto x) { return math::acosh(x); }>(),
             .precision = Precision::wide}),
      // y = the number whose tanh is x, log((1 + x) / (1 - x)) / 2; infinities at -1 and 1, NaN
      // beyond. Its slope is 1 / (1 - x^2), as a product that is exact close to 1.
      unary({.name = "Atanh",
             .gradient = dx<[](Output x, Output, Output dy) { return dy / ((1 - x) * (1 + x)); }>,
             .kernels = math_kernels<[](auto x) { return math::atanh(x); }>(),
             .precision = Precision::wide}),
  };
}

Output sinh(Output x, Origin at) { return node_of("Sinh", {x}, at); }
Output cosh(Output x, Origin at) { return node_of("Cosh", {x}, at); }
Output tanh(Output x, Origin at) { return node_of("Tanh", {x}, at); }
Output asinh(Output x, Origin at) { return node_of("Asinh", {x}, at); }
Output acosh(Output x, Origin at) { return node_of("Acosh", {x}, at); }
Output atanh(Output x, Origin at) { return node_of("Atanh", {x}, at); }

}  // namespace troupe
