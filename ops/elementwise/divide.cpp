// Divide: c = a / b, element-wise and broadcasting.
//   a, b: shapes that broadcast to that of c. Floats follow IEEE 754; integers are cut towards
//   zero, wrap around (the least one divided by -1), and refuse to be divided by zero.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc / b  and  db = -dc * c / b.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), c = ctx.output(0);
  const Output da = divide(ctx.output_gradient(0), b);
  return {undo_broadcast(da, a), undo_broadcast(negate(multiply(da, c)), b)};
}

struct Divide : Division {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
      if (b == -1) return static_cast<T>(wrapping<T>(0) - wrapping<T>(a));  // a / -1 may not fit
    return static_cast<T>(a / b);
  }
};

}  // namespace

Op divide_op() {
  return {.name = "Divide",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<Divide, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true,
          .precision = Precision::wide};
}

Output divide(Output a, Output b, Origin at) {
  return add_node({.op = "Divide", .inputs = {a, b}}, at);
}

}  // namespace troupe
