// Comparisons of two elements as bool. Beside NaN all are false but NotEqual.
#include <functional>

#include "ops/elementwise/rows.hpp"

namespace troupe {
namespace {

// Kernels for numbers; Ts are further dtypes.
template <auto kFunction, class... Ts>
std::vector<Kernel> kernels() {
  return with_i8(
      comparison_kernels<Each<kFunction>, float, double, int32_t, int64_t, uint8_t, Ts...>());
}

}  // namespace

std::vector<Op> comparison_ops() {
  return {
      // c = (a == b), of bool, too
      comparison({.name = "Equal", .kernels = kernels<std::equal_to<>{}, bool>()}),
      // c = (a != b), of bool, too
      comparison({.name = "NotEqual", .kernels = kernels<std::not_equal_to<>{}, bool>()}),
      // c = (a < b)
      comparison({.name = "Less", .kernels = kernels<std::less<>{}>()}),
      // c = (a <= b)
      comparison({.name = "LessEqual", .kernels = kernels<std::less_equal<>{}>()}),
      // c = (a > b)
      comparison({.name = "Greater", .kernels = kernels<std::greater<>{}>()}),
      // c = (a >= b)
      comparison({.name = "GreaterEqual", .kernels = kernels<std::greater_equal<>{}>()}),
  };
}

Output equal(Operand a, Operand b, Origin at) { return node_of("Equal", a, b, at); }
Output not_equal(Operand a, Operand b, Origin at) { return node_of("NotEqual", a, b, at); }
Output less(Operand a, Operand b, Origin at) { return node_of("Less", a, b, at); }
Output less_equal(Operand a, Operand b, Origin at) { return node_of("LessEqual", a, b, at); }
Output greater(Operand a, Operand b, Origin at) { return node_of("Greater", a, b, at); }
Output greater_equal(Operand a, Operand b, Origin at) { return node_of("GreaterEqual", a, b, at); }

}  // namespace troupe
