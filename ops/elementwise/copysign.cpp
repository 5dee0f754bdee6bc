// Copysign: c = |a| with the sign of b, element-wise and broadcasting; also of zeros, infinities
// and NaN, whose sign bit it takes and sets.
//   a, b: shapes that broadcast to that of c, floats.
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc where the signs are the same, else -dc, and 0 at 0, as of Abs. c
// is constant in b wherever it has a slope.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  const Output turned = where(logical_xor(signbit(a), signbit(b)), negate(dc), dc);
  const Output at_kink = equal(a, constant_like(0, a));
  return {undo_broadcast(where(at_kink, constant_like(0, dc), turned), a), Output{}};
}

struct Copysign {
  template <class T>
  static T apply(T a, T b) {
    return std::copysign(a, b);
  }
};

}  // namespace

Op copysign_op() {
  return {.name = "Copysign",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = binary_kernels<Copysign, float, double>(),
          .in_place = true};
}

Output copysign(Output a, Output b, Origin at) {
  return add_node({.op = "Copysign", .inputs = {a, b}}, at);
}

}  // namespace troupe
