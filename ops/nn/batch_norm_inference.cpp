// BatchNormInference: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and
// variance from training.
//   x, y: [..., c], f32 or f64, with at least two dimensions   gamma, beta, mean, variance: [c]
#include "ops/nn/batch_norm.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {require_channels(ctx, 0, 1, 2)};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return gradient_of_composition(ctx, [&](const std::vector<Output>& in) {
    const Output scale = in[1] / sqrt(in[4] + ctx.attr<double>("epsilon"));
    return std::vector<Output>{(in[0] - in[3]) * scale + in[2]};
  });
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T *x = ctx.input(0).data<T>(), *gamma = ctx.input(1).data<T>();
  const T *beta = ctx.input(2).data<T>(), *mean = ctx.input(3).data<T>();
  const T* variance = ctx.input(4).data<T>();
  const int64_t c = ctx.input(1).size(), rows = rows_of(ctx.input(0).shape());
  normalize(ctx, x, gamma, beta, mean, variance, ctx.output_in_place().template mutable_data<T>(),
            rows, c);
}

}  // namespace

Op batch_norm_inference_op() {
  return {.name = "BatchNormInference",
          .inputs = {"x", "gamma", "beta", "mean", "variance"},
          .outputs = {"y"},
          .attrs = epsilon_attr(1e-5),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{.dtype = DType::f32, .run = cpu<float>, .finishes = true},
                      {.dtype = DType::f64, .run = cpu<double>, .finishes = true}},
          .in_place = true,
          .precision = Precision::wide};
}

Output batch_norm_inference(Output x, Output gamma, Output beta, Output mean, Output variance,
                            double epsilon, Origin at) {
  return add_node({.op = "BatchNormInference",
                   .inputs = {x, gamma, beta, mean, variance},
                   .attrs = {{"epsilon", epsilon}}},
                  at);
}

}  // namespace troupe
