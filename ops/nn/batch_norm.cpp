// BatchNorm: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and variance
// of each channel over all other dimensions (Ioffe and Szegedy, Batch Normalization, 2015).
//   x, y: [..., c], f32 or f64, with at least two dimensions   gamma, beta, mean, variance: [c]
// The variance is that of the formula, the mean of (x - mean)^2; TensorFlow returns n / (n - 1)
// times it. The mean is subtracted before squaring. Sums are the fixed tree of ops/nn/norm.hpp.
//
// BatchNormInference: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and
// variance from training.
//   x, y: [..., c], f32 or f64, with at least two dimensions   gamma, beta, mean, variance: [c]
#include "ops/gradients.hpp"
#include "ops/nn/batch_norm.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape shape = require_channels(ctx, 0, 1, 2), channels{shape[shape.ndim() - 1]};
  return {shape, channels, channels};
}

// Writing dmean and dvariance for the gradients of these outputs, if they have any:
//   dx += dmean / n + dvariance * 2 * (x - mean) / n.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), mean = ctx.output(1), variance = ctx.output(2);
  const Output dy = ctx.output_gradient(0), dmean = ctx.output_gradient(1);
  const Output dvariance = ctx.output_gradient(2);
  NormGradient d;
  if (dy.defined())
    d = batch_norm_gradient(dy, x, ctx.input(1), mean, variance, ctx.attr<double>("epsilon"));
  const auto add = [&](Output more) { d.dx = d.dx.defined() ? d.dx + more : more; };
  const ReduceOptions options{.axes = leading_axes(x)};
  if (dmean.defined()) add(reduce_gradient(dmean, x, options, /*mean=*/true));
  if (dvariance.defined())
    add((x - mean) * reduce_gradient(dvariance * 2, x, options, /*mean=*/true));
  return {d.dx, d.dgamma, d.dbeta};
}

// sums[j] = the sum of x[row, j], or of (x[row, j] - mean[j])^2.
template <bool kSquares>
struct SumLoop {
  template <class T>
  static void run(const T* x, const T* mean, T* sums, int64_t rows, int64_t c) {
    using Some = Channels<T>;
    for_channels<T>(
        c,
        [=](int64_t j, auto wide) {
          typename Some::Vector sum[wide] = {}, m[wide] = {}, v;
          for (int k = 0; k < wide; ++k)
            if (kSquares) Some::load(m[k], mean + j + k * Some::kCount);
          for (int64_t i = j; i < rows * c; i += c)
            for (int k = 0; k < wide; ++k) {
              Some::load(v, x + i + k * Some::kCount);
              if (kSquares) v = (v - m[k]) * (v - m[k]);
              sum[k] += v;
            }
          for (int k = 0; k < wide; ++k) Some::store(sum[k], sums + j + k * Some::kCount);
        },
        [=](int64_t j) {
          T sum = 0;
          for (int64_t i = j; i < rows * c; i += c)
            sum += kSquares ? (x[i] - mean[j]) * (x[i] - mean[j]) : x[i];
          sums[j] = sum;
        });
  }
};

// result [c] = the mean over rows of the terms that SumLoop sums.
template <bool kSquares, class T>
void mean_of_rows(KernelContext& ctx, const T* x, const T* mean, T* result, int64_t rows,
                  int64_t c) {
  if (c == 0) return;
  sum_rows(ctx, rows, c, 0, result, [=](int64_t begin, int64_t n, T* sums, T*) {
    in_isa<SumLoop<kSquares>>(x + begin * c, mean, sums, n, c);
  });
  for (int64_t j = 0; j < c; ++j) result[j] /= static_cast<T>(rows);
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& input = ctx.input(0);
  const T *x = input.data<T>(), *gamma = ctx.input(1).data<T>(), *beta = ctx.input(2).data<T>();
  const Shape shape = input.shape(), channels = ctx.input(1).shape();
  const int64_t c = channels[0], rows = rows_of(shape);
  T* mean = ctx.output(1, channels).template mutable_data<T>();
  T* variance = ctx.output(2, channels).template mutable_data<T>();
  mean_of_rows<false>(ctx, x, static_cast<const T*>(mean), mean, rows, c);
  mean_of_rows<true>(ctx, x, static_cast<const T*>(mean), variance, rows, c);
  normalize(ctx, x, gamma, beta, mean, variance, ctx.output(0, shape).template mutable_data<T>(),
            rows, c);
}

std::vector<Shape> infer_inference(const InferContext& ctx) {
  return {require_channels(ctx, 0, 1, 2)};
}

std::vector<Output> gradient_of_inference(const GradientContext& ctx) {
  return gradient_of_composition(ctx, [&](const std::vector<Output>& in) {
    const Output scale = in[1] / sqrt(in[4] + ctx.attr<double>("epsilon"));
    return std::vector<Output>{(in[0] - in[3]) * scale + in[2]};
  });
}

template <class T>
void cpu_inference(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T *x = ctx.input(0).data<T>(), *gamma = ctx.input(1).data<T>();
  const T *beta = ctx.input(2).data<T>(), *mean = ctx.input(3).data<T>();
  const T* variance = ctx.input(4).data<T>();
  const int64_t c = ctx.input(1).size(), rows = rows_of(ctx.input(0).shape());
  normalize(ctx, x, gamma, beta, mean, variance, ctx.output_in_place().template mutable_data<T>(),
            rows, c);
}

}  // namespace

Op batch_norm_op() {
  return {.name = "BatchNorm",
          .inputs = {"x", "gamma", "beta"},
          .outputs = {"y", "mean", "variance"},
          .attrs = epsilon_attr(1e-5),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{.dtype = DType::f32, .run = cpu<float>, .finishes = true},
                      {.dtype = DType::f64, .run = cpu<double>, .finishes = true}},
          .precision = Precision::wide};
}

BatchNorm batch_norm(Output x, Output gamma, Output beta, double epsilon, Origin at) {
  const std::vector<Output> outputs = all_outputs(add_node(
      {.op = "BatchNorm", .inputs = {x, gamma, beta}, .attrs = {{"epsilon", epsilon}}}, at));
  return {outputs[0], outputs[1], outputs[2]};
}

Op batch_norm_inference_op() {
  return {.name = "BatchNormInference",
          .inputs = {"x", "gamma", "beta", "mean", "variance"},
          .outputs = {"y"},
          .attrs = epsilon_attr(1e-5),
          .infer_shapes = infer_inference,
          .gradient = gradient_of_inference,
          .kernels = {{.dtype = DType::f32, .run = cpu_inference<float>, .finishes = true},
                      {.dtype = DType::f64, .run = cpu_inference<double>, .finishes = true}},
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
