// SigmoidCrossEntropy: loss = -z * log(sigmoid(x)) - (1 - z) * log(1 - sigmoid(x)), element-wise
// and broadcasting, as max(x, 0) - x * z + log(1 + e^-|x|), which is finite for all finite x and z.
//   logits x, labels z: f32 or f64, shapes that broadcast to the shape of the loss; the function
//   requires that to be the shape of the logits.
#include "ops/support/elementwise.hpp"
#include "ops/nn/losses.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/d(loss):  dx = dy * (sigmoid(x) - z);  dz = -dy * x.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), z = ctx.input(1), dy = ctx.output_gradient(0);
  return {undo_broadcast(multiply(dy, subtract(sigmoid(x), z)), x),
          undo_broadcast(negate(multiply(dy, x)), z)};
}

struct SigmoidCrossEntropy {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x, T z) {
    const T positive = x < T{0} ? T{0} : x;
    return (positive - x * z) + math::log1p(math::exp(-std::abs(x)));
  }
};

}  // namespace

Op sigmoid_cross_entropy_op() {
  return {.name = "SigmoidCrossEntropy",
          .inputs = {"logits", "labels"},
          .outputs = {"loss"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = binary_kernels<SigmoidCrossEntropy, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output sigmoid_cross_entropy(Output logits, Output labels, Origin at) {
  require_fitting(logits, labels, "sigmoid_cross_entropy", at);
  return add_node({.op = "SigmoidCrossEntropy", .inputs = {logits, labels}}, at);
}

}  // namespace troupe
