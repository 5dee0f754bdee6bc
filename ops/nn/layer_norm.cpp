// LayerNorm: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and variance
// over the last dimension (Ba, Kiros, Hinton, Layer Normalization, 2016).
//   x, y: [..., c], f32 or f64   gamma, beta: [c]
// The mean is subtracted before squaring.
#include "ops/gradients.hpp"
#include "ops/nn/norm.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {require_channels(ctx, 0, 1, 1)};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  const NormGradient d = layer_norm_gradient(ctx.output_gradient(0), ctx.input(0), ctx.input(1),
                                             ctx.attr<double>("epsilon"));
  return {d.dx, d.dgamma, d.dbeta};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T *x = ctx.input(0).data<T>(), *gamma = ctx.input(1).data<T>();
  const T* beta = ctx.input(2).data<T>();
  const int64_t c = ctx.input(1).size(), rows = c > 0 ? ctx.input(0).size() / c : 0;
  const T epsilon = static_cast<T>(ctx.attr<double>("epsilon"));
  T* y = ctx.output_in_place().template mutable_data<T>();
  in_rows(ctx, rows, c, [=](int64_t first, int64_t count) {
    in_isa<RowNormLoop<true>>(x + first * c, gamma, beta, y + first * c, count, c, epsilon);
  });
}

}  // namespace

Op layer_norm_op() {
  return {.name = "LayerNorm",
          .inputs = {"x", "gamma", "beta"},
          .outputs = {"y"},
          .attrs = epsilon_attr(1e-5),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}},
          .in_place = true,
          .precision = Precision::wide};
}

Output layer_norm(Output x, Output gamma, Output beta, double epsilon, Origin at) {
  return add_node({.op = "LayerNorm", .inputs = {x, gamma, beta}, .attrs = {{"epsilon", epsilon}}},
                  at);
}

}  // namespace troupe
