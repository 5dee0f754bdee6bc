// Hypot: c = sqrt(a^2 + b^2), element-wise and broadcasting; a square that is too large, or too
// small, for the dtype does no harm. Infinite if either is, also beside NaN.
//   a, b: shapes that broadcast to that of c, f32 or f64.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc * a / c  and  db = dc * b / c; 0 at the origin.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), c = ctx.output(0), dc = ctx.output_gradient(0);
  const Output length = where(equal(c, constant_like(0, c)), constant_like(1, c), c);
  const Output da = multiply(dc, divide(a, length)), db = multiply(dc, divide(b, length));
  return {undo_broadcast(da, a), undo_broadcast(db, b)};
}

struct Hypot {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T a, T b) {
    return math::hypot(a, b);
  }
};

}  // namespace

Op hypot_op() {
  return {.name = "Hypot",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = binary_kernels<Hypot, float, double>(),
          .in_place = true};
}

Output hypot(Output a, Output b, Origin at) {
  return add_node({.op = "Hypot", .inputs = {a, b}}, at);
}

}  // namespace troupe
