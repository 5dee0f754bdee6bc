// Logic of bool, and tests of floats. No op here has a gradient.
#include <cmath>
#include <functional>
#include <limits>

#include "ops/elementwise/rows.hpp"
#include "ops/support/refused.hpp"

namespace troupe {
namespace {

// Bytes of 0 and 1, as loops over bool are not vectorised.
using LogicalNot = Each<[](uint8_t x) -> uint8_t { return x ^ 1; }>;

double largest(DType dtype) {
  double number = 0;
  with_type(dtype,
            [&]<class T>(T) { number = static_cast<double>(std::numeric_limits<T>::max()); });
  return number;
}

}  // namespace

std::vector<Op> logic_ops() {
  return {
      // c = a and b
      binary({.name = "LogicalAnd",
              .no_gradient = "its values are bool",
              .kernels = binary_kernels<LogicalAnd, bool>()}),
      // c = a or b
      binary({.name = "LogicalOr",
              .no_gradient = "its values are bool",
              .kernels = binary_kernels<LogicalOr, bool>()}),
      // c = either a or b, but not both
      binary({.name = "LogicalXor",
              .no_gradient = "its values are bool",
              .kernels = binary_kernels<Each<[](bool a, bool b) { return a != b; }>, bool>()}),
      // y = not x
      unary({.name = "LogicalNot",
             .no_gradient = "bool has no slope",
             .kernels = {map_kernel<map_any<LogicalNot, uint8_t, uint8_t>, uint8_t>(
                 DType::boolean)}}),

      // y = x is neither infinite nor NaN; x - x is NaN of those.
      predicate(
          {.name = "IsFinite",
           .kernels = predicate_kernels<Each<[](auto x) { return x - x == 0; }>, float, double>()}),
      // y = x is NaN
      predicate(
          {.name = "IsNan",
           .kernels = predicate_kernels<Each<[](auto x) { return x != x; }>, float, double>()}),
      // y = x is infinity or -infinity
      predicate(
          {.name = "IsInf",
           .kernels = predicate_kernels<
               Each<[]<class T>(T x) { return std::abs(x) == std::numeric_limits<T>::infinity(); }>,
               float, double>()}),
      // y = the sign bit of x: true of what is below zero, of -0, and of a NaN that has it
      predicate(
          {.name = "Signbit",
           .kernels =
               predicate_kernels<Each<[](auto x) { return std::signbit(x); }>, float, double>()}),
  };
}

Output logical_and(Operand a, Operand b, Origin at) { return node_of("LogicalAnd", a, b, at); }
Output logical_or(Operand a, Operand b, Origin at) { return node_of("LogicalOr", a, b, at); }
Output logical_xor(Operand a, Operand b, Origin at) { return node_of("LogicalXor", a, b, at); }
Output logical_not(Output x, Origin at) { return node_of("LogicalNot", {x}, at); }
Output is_finite(Output x, Origin at) { return node_of("IsFinite", {x}, at); }
Output is_nan(Output x, Origin at) { return node_of("IsNan", {x}, at); }
Output is_inf(Output x, Origin at) { return node_of("IsInf", {x}, at); }
Output signbit(Output x, Origin at) { return node_of("Signbit", {x}, at); }

// Where chooses what is replaced, and passes no gradient to what it does not choose.
Output nan_to_num(Output x, const NanToNum& numbers, Origin at) {
  require_defined("nan_to_num", at, {x});
  if (!is_floating(x.dtype()))
    throw refused("nan_to_num", at, "wants floats, got ", x.dtype(),
                  ", in which every element is a number; use x itself, or cast it");
  const double most = largest(x.dtype()), infinity = std::numeric_limits<double>::infinity();
  const auto replace = [&](Output which, double number, Output others) {
    return where(which, constant_like(number, x, at), others, at);
  };
  const auto equals = [&](double number) { return equal(x, constant_like(number, x, at), at); };
  const Output above = replace(equals(infinity), numbers.positive.value_or(most), x);
  const Output finite = replace(equals(-infinity), numbers.negative.value_or(-most), above);
  return replace(is_nan(x, at), numbers.nan, finite);
}

}  // namespace troupe
