// LayerNormGradient: dL/dx, dL/dgamma and dL/dbeta of y = layer_norm(x), from dy = dL/dy, in one
// kernel. Writing z = (x - mean) / sqrt(variance + epsilon), g = dy * gamma, means over the last
// dimension and sums over the others:
//   dx = (g - mean(g) - z * mean(g * z)) / sqrt(variance + epsilon)
//   dgamma = sum(dy * z), dbeta = sum(dy)
//   dy, x, dx: [..., c], f32 or f64   gamma, dgamma, dbeta: [c]
#include "ops/gradients.hpp"
#include "ops/nn/norm.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape shape = require_channels(ctx, 1, 2, 1), channels{shape[shape.ndim() - 1]};
  return {shape, channels, channels};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return gradient_of_composition(ctx, [&](const std::vector<Output>& in) {
    return row_norm_gradient(in[0], in[1], in[2], ctx.attr<double>("epsilon"), /*centred=*/true);
  });
}

}  // namespace

Op layer_norm_gradient_op() {
  return {.name = "LayerNormGradient",
          .inputs = {"dy", "x", "gamma"},
          .outputs = {"dx", "dgamma", "dbeta"},
          .attrs = epsilon_attr(1e-5),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, run_row_norm_gradient<true, float>},
                      {DeviceKind::cpu, DType::f64, run_row_norm_gradient<true, double>}}};
}

NormGradient layer_norm_gradient(Output dy, Output x, Output gamma, double epsilon, Origin at) {
  const std::vector<Output> outputs = all_outputs(add_node(
      {.op = "LayerNormGradient", .inputs = {dy, x, gamma}, .attrs = {{"epsilon", epsilon}}}, at));
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace troupe
