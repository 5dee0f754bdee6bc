// Silu: y = x * sigmoid(x), element-wise (also called Swish: Ramachandran et al. 2017); 0 at
// -infinity.
#include <cmath>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// With s = sigmoid(x), and dy for dL/dy:  dx = dy * (s + x * s * (1 - s)) = dy * (s + y * (1 - s)).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output s = sigmoid(x);
  return {dy * (s + y * (1 - s))};
}

struct Silu {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    const T e = math::exp(-std::abs(x));  // at most 1
    const T s = (x > T{0} ? T{1} : e) / (1 + e);
    return s == T{0} ? T{0} : x * s;
  }
};

}  // namespace

Op silu_op() {
  return {.name = "Silu",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Silu, float, double>(),
          .in_place = true};
}

Output silu(Output x, Origin at) { return add_node({.op = "Silu", .inputs = {x}}, at); }

}  // namespace troupe
