// Heaviside: y = 0 where x < 0, 1 where x > 0, at_zero where x = 0, element-wise and broadcasting;
// NaN stays NaN.
//   x, at_zero: shapes that broadcast to that of y.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// A step has no slope but at its place, so nothing is passed on to x.
// Writing dy for dL/dy:  d at_zero = dy where x = 0, else 0.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), at_zero = ctx.input(1), dy = ctx.output_gradient(0);
  const Output taken = equal(x, constant_like(0, x));
  return {Output{}, undo_broadcast(where(taken, dy, constant_like(0, dy)), at_zero)};
}

struct Heaviside {
  template <class T>
  static T apply(T x, T at_zero) {
    const T step = static_cast<T>(x > 0);
    const T known = x == 0 ? at_zero : step;
    return x != x ? x : known;
  }
};

}  // namespace

Op heaviside_op() {
  return {.name = "Heaviside",
          .inputs = {"x", "at_zero"},
          .outputs = {"y"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<Heaviside, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

Output heaviside(Output x, Output at_zero, Origin at) {
  return add_node({.op = "Heaviside", .inputs = {x, at_zero}}, at);
}

}  // namespace troupe
