// Selu: y = scale * x where x > 0, else scale * alpha * (e^x - 1), element-wise. With this scale
// and this alpha, activations keep mean 0 and variance 1 (Klambauer et al. 2017, equation 14).
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

constexpr double kScale = 1.0507009873554804934193349852946;
constexpr double kScaleAlpha = kScale * 1.6732632423543772848170429916717;

// Writing dy for dL/dy:  dx = dy * scale where x > 0, else dy * (y + scale * alpha).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), y = ctx.output(0), dy = ctx.output_gradient(0);
  return {dy * where(greater(x, constant_like(0, x)), constant_like(kScale, x), y + kScaleAlpha)};
}

struct Selu {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    const T positive = static_cast<T>(kScale) * x;
    const T negative = static_cast<T>(kScaleAlpha) * math::expm1(x > T{0} ? T{0} : x);
    return x > T{0} ? positive : negative;
  }
};

}  // namespace

Op selu_op() {
  return {.name = "Selu",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Selu, float, double>(),
          .in_place = true};
}

Output selu(Output x, Origin at) { return add_node({.op = "Selu", .inputs = {x}}, at); }

}  // namespace troupe
