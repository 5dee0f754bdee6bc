// RmsNormGradient: dL/dx and dL/dgamma of y = rms_norm(x), from dy = dL/dy, in one kernel. Writing
// r = sqrt(mean(x^2) + epsilon), z = x / r, g = dy * gamma, means over the last dimension and sums
// over the others:
//   dx = (g - z * mean(g * z)) / r
//   dgamma = sum(dy * z)
//   dy, x, dx: [..., c], f32 or f64   gamma, dgamma: [c]
#include "ops/gradients.hpp"
#include "ops/nn/norm.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape shape = require_channels(ctx, 1, 2, 1);
  return {shape, Shape{shape[shape.ndim() - 1]}};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return gradient_of_composition(ctx, [&](const std::vector<Output>& in) {
    return row_norm_gradient(in[0], in[1], in[2], ctx.attr<double>("epsilon"), /*centred=*/false);
  });
}

}  // namespace

Op rms_norm_gradient_op() {
  return {.name = "RmsNormGradient",
          .inputs = {"dy", "x", "gamma"},
          .outputs = {"dx", "dgamma"},
          .attrs = epsilon_attr(1e-6),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, run_row_norm_gradient<false, float>},
                      {DeviceKind::cpu, DType::f64, run_row_norm_gradient<false, double>}}};
}

NormGradient rms_norm_gradient(Output dy, Output x, Output gamma, double epsilon, Origin at) {
  const std::vector<Output> outputs = all_outputs(add_node(
      {.op = "RmsNormGradient", .inputs = {dy, x, gamma}, .attrs = {{"epsilon", epsilon}}}, at));
  return {outputs[0], outputs[1], Output{}};
}

}  // namespace troupe
