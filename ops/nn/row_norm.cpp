// LayerNorm: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and variance
// over the last dimension (Ba, Kiros, Hinton, Layer Normalization, 2016).
//   x, y: [..., c], f32 or f64   gamma, beta: [c]
// The mean is subtracted before squaring.
//
// LayerNormGradient: dL/dx, dL/dgamma and dL/dbeta of y = layer_norm(x), from dy = dL/dy, in one
// kernel. Writing z = (x - mean) / sqrt(variance + epsilon), g = dy * gamma, means over the last
// dimension and sums over the others:
//   dx = (g - mean(g) - z * mean(g * z)) / sqrt(variance + epsilon)
//   dgamma = sum(dy * z), dbeta = sum(dy)
//   dy, x, dx: [..., c], f32 or f64   gamma, dgamma, dbeta: [c]
//
// RmsNorm: y = x / sqrt(mean(x^2) + epsilon) * gamma, with the mean over the last dimension (Zhang
// and Sennrich, Root Mean Square Layer Normalization, 2019).
//   x, y: [..., c], f32 or f64   gamma: [c]
//
// RmsNormGradient: dL/dx and dL/dgamma of y = rms_norm(x), from dy = dL/dy, in one kernel. Writing
// r = sqrt(mean(x^2) + epsilon), z = x / r, g = dy * gamma, means over the last dimension and sums
// over the others:
//   dx = (g - z * mean(g * z)) / r
//   dgamma = sum(dy * z)
//   dy, x, dx: [..., c], f32 or f64   gamma, dgamma: [c]
#include <cmath>

#include "ops/gradients.hpp"
#include "ops/nn/norm.hpp"

namespace troupe {
namespace {

// x [..., c] -> [c]
Output sum_to_channels(Output x) {
  return x.shape().ndim() == 1 ? x : reduce_sum(x, {.axes = leading_axes(x)});
}

// The sum of (x - mean)^2, in the order of row_sum().
template <class T>
T row_squares(const T* x, T mean, int64_t n) {
  T part[kRowParts] = {};
  int64_t i = 0;
  for (; i + kRowParts <= n; i += kRowParts)
    for (int j = 0; j < kRowParts; ++j) part[j] += (x[i + j] - mean) * (x[i + j] - mean);
  for (int j = 0; i < n; ++i, ++j) part[j] += (x[i] - mean) * (x[i] - mean);
  return sum_of_parts(part);
}

template <class T>
struct RowStatistics {
  T mean, scale;  // 1 / sqrt(variance + epsilon)
};

// Without kCentred, the mean is taken as 0.
template <bool kCentred, class T>
RowStatistics<T> row_statistics(const T* x, int64_t c, T epsilon) {
  const T n = static_cast<T>(c), mean = kCentred ? row_sum(x, c) / n : T{0};
  return {mean, T{1} / std::sqrt(row_squares(x, mean, c) / n + epsilon)};
}

// y = (x - mean) * scale * gamma + beta. y may be x. beta: nullptr without kCentred.
template <bool kCentred>
struct RowNormLoop {
  template <class T>
  static void run(const T* x, const T* gamma, const T* beta, T* y, int64_t rows, int64_t c,
                  T epsilon) {
    for (int64_t row = 0; row < rows; ++row, x += c, y += c) {
      const RowStatistics<T> of = row_statistics<kCentred>(x, c, epsilon);
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < c; ++j)
        y[j] = (x[j] - of.mean) * of.scale * gamma[j] + (kCentred ? beta[j] : T{0});
    }
  }
};

// Sets dx, and dgamma and dbeta [c] to the sums over these rows. Writing z = (x - mean) * scale and
// g = dy * gamma:  dx = scale * (g - mean(g) - z * mean(g * z)), without mean(g) if not kCentred.
template <bool kCentred>
struct RowNormGradientLoop {
  template <class T>
  static void run(const T* dy, const T* x, const T* gamma, T* dx, T* dgamma, T* dbeta, T* z, T* gz,
                  int64_t rows, int64_t c, T epsilon) {
    std::fill_n(dgamma, c, T{0});
    if (kCentred) std::fill_n(dbeta, c, T{0});
    for (int64_t row = 0; row < rows; ++row, dy += c, x += c, dx += c) {
      const RowStatistics<T> of = row_statistics<kCentred>(x, c, epsilon);
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < c; ++j) {
        z[j] = (x[j] - of.mean) * of.scale;
        dx[j] = dy[j] * gamma[j];
        gz[j] = dx[j] * z[j];
        dgamma[j] += dy[j] * z[j];
        if (kCentred) dbeta[j] += dy[j];
      }
      const T n = static_cast<T>(c), mean_g = kCentred ? row_sum(dx, c) / n : T{0};
      const T mean_gz = row_sum(gz, c) / n;
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < c; ++j) dx[j] = of.scale * (dx[j] - mean_g - z[j] * mean_gz);
    }
  }
};

// The kernels of LayerNormGradient and RmsNormGradient: compute dx, dgamma and, if kCentred, dbeta
// from dy, x and gamma.
template <bool kCentred, class T>
void run_row_norm_gradient(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &input = ctx.input(1), &gamma = ctx.input(2);
  const T *dy = ctx.input(0).data<T>(), *x = input.data<T>(), *factors = gamma.data<T>();
  const Shape shape = input.shape(), channels = gamma.shape();
  const int64_t c = channels[0], rows = c > 0 ? shape.size() / c : 0;
  const T epsilon = static_cast<T>(ctx.attr<double>("epsilon"));
  T* dx = ctx.output(0, shape).template mutable_data<T>();
  T* dgamma = ctx.output(1, channels).template mutable_data<T>();
  T* dbeta = kCentred ? ctx.output(2, channels).template mutable_data<T>() : nullptr;
  const int64_t width = kCentred ? 2 * c : c;
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{width});
  T* sums = scratch.mutable_data<T>();
  sum_rows(ctx, rows, width, 2 * c, sums, [=](int64_t begin, int64_t n, T* to, T* z) {
    in_isa<RowNormGradientLoop<kCentred>>(dy + begin * c, x + begin * c, factors, dx + begin * c,
                                          to, to + c, z, z + c, n, c, epsilon);
  });
  std::copy_n(sums, c, dgamma);
  if (kCentred) std::copy_n(sums + c, c, dbeta);
}

// The same gradients as a graph of ops: dx, dgamma and, if `centred`, dbeta.
std::vector<Output> row_norm_gradient(Output dy, Output x, Output gamma, double epsilon,
                                      bool centred) {
  const ReduceOptions last{.axes = {-1}, .keep_dims = true};
  const Output d = centred ? x - reduce_mean(x, last) : x;
  const Output scale = 1 / sqrt(reduce_mean(square(d), last) + epsilon);
  const Output z = d * scale, g = dy * gamma;
  const Output inner = g - z * reduce_mean(g * z, last);
  const Output dx = scale * (centred ? inner - reduce_mean(g, last) : inner);
  if (!centred) return {dx, sum_to_channels(dy * z)};
  return {dx, sum_to_channels(dy * z), sum_to_channels(dy)};
}

// The two norms, of which LayerNorm is centred: it subtracts the mean, and adds a beta.

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {require_channels(ctx, 0, 1, 1)};
}

template <bool kCentred>
std::vector<Output> gradient(const GradientContext& ctx) {
  constexpr auto kBackward = kCentred ? layer_norm_gradient : rms_norm_gradient;
  const NormGradient d = kBackward(ctx.output_gradient(0), ctx.input(0), ctx.input(1),
                                   ctx.attr<double>("epsilon"), Origin::here());
  if (!kCentred) return {d.dx, d.dgamma};
  return {d.dx, d.dgamma, d.dbeta};
}

template <bool kCentred, class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T *x = ctx.input(0).data<T>(), *gamma = ctx.input(1).data<T>();
  const T* beta = kCentred ? ctx.input(2).data<T>() : nullptr;
  const int64_t c = ctx.input(1).size(), rows = c > 0 ? ctx.input(0).size() / c : 0;
  const T epsilon = static_cast<T>(ctx.attr<double>("epsilon"));
  T* y = ctx.output_in_place().template mutable_data<T>();
  in_rows(ctx, rows, c, [=](int64_t first, int64_t count) {
    in_isa<RowNormLoop<kCentred>>(x + first * c, gamma, beta, y + first * c, count, c, epsilon);
  });
}

template <bool kCentred>
Op norm_op(const char* name, std::vector<std::string> inputs, double epsilon) {
  return {.name = name,
          .inputs = std::move(inputs),
          .outputs = {"y"},
          .attrs = epsilon_attr(epsilon),
          .infer_shapes = infer_shapes,
          .gradient = gradient<kCentred>,
          .kernels = float_kernels(cpu<kCentred, float>, cpu<kCentred, double>),
          .in_place = true,
          .precision = Precision::wide};
}

template <bool kCentred>
std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  const Shape shape = require_channels(ctx, 1, 2, 1), channels{shape[shape.ndim() - 1]};
  if (!kCentred) return {shape, channels};
  return {shape, channels, channels};
}

template <bool kCentred>
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return gradient_of_composition(ctx, [&](const std::vector<Output>& in) {
    return row_norm_gradient(in[0], in[1], in[2], ctx.attr<double>("epsilon"), kCentred);
  });
}

template <bool kCentred>
Op norm_gradient_op(const char* name, std::vector<std::string> outputs, double epsilon) {
  return {.name = name,
          .inputs = {"dy", "x", "gamma"},
          .outputs = std::move(outputs),
          .attrs = epsilon_attr(epsilon),
          .infer_shapes = infer_gradient_shapes<kCentred>,
          .gradient = gradient_of_gradient<kCentred>,
          .kernels = float_kernels(run_row_norm_gradient<kCentred, float>,
                                   run_row_norm_gradient<kCentred, double>)};
}

constexpr double kLayerEpsilon = 1e-5, kRmsEpsilon = 1e-6;  // if the caller names none

}  // namespace

Op layer_norm_op() { return norm_op<true>("LayerNorm", {"x", "gamma", "beta"}, kLayerEpsilon); }
Op rms_norm_op() { return norm_op<false>("RmsNorm", {"x", "gamma"}, kRmsEpsilon); }
Op layer_norm_gradient_op() {
  return norm_gradient_op<true>("LayerNormGradient", {"dx", "dgamma", "dbeta"}, kLayerEpsilon);
}
Op rms_norm_gradient_op() {
  return norm_gradient_op<false>("RmsNormGradient", {"dx", "dgamma"}, kRmsEpsilon);
}

Output layer_norm(Output x, Output gamma, Output beta, double epsilon, Origin at) {
  return add_node({.op = "LayerNorm", .inputs = {x, gamma, beta}, .attrs = {{"epsilon", epsilon}}},
                  at);
}

Output rms_norm(Output x, Output gamma, double epsilon, Origin at) {
  return add_node({.op = "RmsNorm", .inputs = {x, gamma}, .attrs = {{"epsilon", epsilon}}}, at);
}

NormGradient layer_norm_gradient(Output dy, Output x, Output gamma, double epsilon, Origin at) {
  const std::vector<Output> outputs = all_outputs(add_node(
      {.op = "LayerNormGradient", .inputs = {dy, x, gamma}, .attrs = {{"epsilon", epsilon}}}, at));
  return {outputs[0], outputs[1], outputs[2]};
}

NormGradient rms_norm_gradient(Output dy, Output x, Output gamma, double epsilon, Origin at) {
  const std::vector<Output> outputs = all_outputs(add_node(
      {.op = "RmsNormGradient", .inputs = {dy, x, gamma}, .attrs = {{"epsilon", epsilon}}}, at));
  return {outputs[0], outputs[1], Output{}};
}

}  // namespace troupe
