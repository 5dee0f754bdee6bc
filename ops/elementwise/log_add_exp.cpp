// LogAddExp: c = log(e^a + e^b), element-wise and broadcasting; finite for all finite a and b.
//   a, b: shapes that broadcast to that of c, f32 or f64.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc * e^(a - c) = dc * sigmoid(a - b)  and  db = dc * sigmoid(b - a).
// Equal infinities share it.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  const Output d = subtract(a, b);
  const Output known = logical_or(equal(d, d), not_equal(a, b));
  const Output apart = where(known, d, constant_like(0, d));
  return {undo_broadcast(multiply(dc, sigmoid(apart)), a),
          undo_broadcast(multiply(dc, sigmoid(negate(apart))), b)};
}

// With m the greater of both:  c = m + log(1 + e^-|a - b|).
struct LogAddExp {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T a, T b) {
    const T apart = a == b ? T{0} : a < b ? a - b : b - a;  // also of equal infinities
    return Maximum::apply(a, b) + math::log1p(math::exp(apart));
  }
};

}  // namespace

Op log_add_exp_op() {
  return {.name = "LogAddExp",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = binary_kernels<LogAddExp, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output log_add_exp(Output a, Output b, Origin at) {
  return add_node({.op = "LogAddExp", .inputs = {a, b}}, at);
}

}  // namespace troupe
