// Xlogy: c = a * log(b), and 0 where a = 0, unless b is NaN; element-wise and broadcasting. So it
// is the term of an entropy, also where a probability is 0.
//   a, b: shapes that broadcast to that of c, f32 or f64.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc * log(b)  and  db = dc * a / b; both 0 where a = 0 and b <= 0.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  const Output zero = constant_like(0, b);
  const Output flat = logical_and(equal(a, zero), less_equal(b, zero));
  const Output safe = where(flat, constant_like(1, b), b);
  return {undo_broadcast(multiply(dc, log(safe)), a),
          undo_broadcast(multiply(dc, divide(a, safe)), b)};
}

struct Xlogy {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T a, T b) {
    const T product = a * math::log(b);
    return ((a == 0) & (b == b)) ? T{0} : product;
  }
};

}  // namespace

Op xlogy_op() {
  return {.name = "Xlogy",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = binary_kernels<Xlogy, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output xlogy(Output a, Output b, Origin at) {
  return add_node({.op = "Xlogy", .inputs = {a, b}}, at);
}

}  // namespace troupe
