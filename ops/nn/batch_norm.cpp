// BatchNorm: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and variance
// of each channel over all other dimensions (Ioffe and Szegedy, Batch Normalization, 2015).
//   x, y: [..., c], f32 or f64, with at least two dimensions   gamma, beta, mean, variance: [c]
// The variance is that of the formula, the mean of (x - mean)^2; TensorFlow returns n / (n - 1)
// times it. The mean is subtracted before squaring. Sums are the fixed tree of ops/nn/norm.hpp.
//
// BatchNormInference: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and
// variance from training.
//   x, y: [..., c], f32 or f64, with at least two dimensions   gamma, beta, mean, variance: [c]
//
// BatchNormGradient: dL/dx, dL/dgamma and dL/dbeta of y = batch_norm(x), from dy = dL/dy. Writing z
// = (x - mean) / sqrt(variance + epsilon), and sums and means over all dimensions but the last:
//   dx = gamma / sqrt(variance + epsilon) * (dy - mean(dy) - z * mean(dy * z))
//   dgamma = sum(dy * z), dbeta = sum(dy)
//   dy, x, dx: [..., c], f32 or f64   gamma, mean, variance, dgamma, dbeta: [c]
#include <cstring>
#include <type_traits>

#include "devices/kernel_call.hpp"
#include "ops/gradients.hpp"
#include "ops/nn/norm.hpp"

namespace troupe {
namespace {

// The number of rows of x [..., c]; 0 if x has no elements.
int64_t rows_of(const Shape& x) { return x.size() > 0 ? x.size() / x[x.ndim() - 1] : 0; }

// The number of channels in one AVX-512 register; narrower instruction sets use several registers.
// With this, the sums of a few channels over all rows stay in registers, for any number of
// channels.
template <class T>
struct Channels {
  static constexpr int64_t kCount = 64 / static_cast<int64_t>(sizeof(T));
  typedef T Vector __attribute__((vector_size(64)));
  // By reference, because the convention for passing such a vector by value depends on the
  // instruction set.
  static void load(Vector& v, const T* from) { std::memcpy(&v, from, sizeof v); }
  static void store(const Vector& v, T* to) { std::memcpy(to, &v, sizeof v); }
};

constexpr int64_t kNumbersAtOnce = 1 << 12;  // these fit the nearest cache

// Calls f(first channel, vectors) for the c channels: four vectors at a time, then one at a time,
// then rest(channel) for the channels that do not fill a vector.
template <class T, class F, class Rest>
void for_channels(int64_t c, const F& f, const Rest& rest) {
  constexpr int64_t kCount = Channels<T>::kCount;
  int64_t j = 0;
  for (; j + 4 * kCount <= c; j += 4 * kCount) f(j, std::integral_constant<int, 4>());
  for (; j + kCount <= c; j += kCount) f(j, std::integral_constant<int, 1>());
  for (; j < c; ++j) rest(j);
}

// Calls f(first row, rows) for one group of rows after the other; a group fits the nearest cache.
template <class F>
void for_near_rows(int64_t rows, int64_t c, const F& f) {
  const int64_t step = std::max<int64_t>(1, kNumbersAtOnce / c);
  for (int64_t row = 0; row < rows; row += step) f(row, std::min(step, rows - row));
}

// y = (x - mean) * scale + beta. y may be x.
struct NormalizeLoop {
  template <class T>
  static void run(const T* x, const T* mean, const T* scale, const T* beta, T* y, int64_t rows,
                  int64_t c) {
    using Some = Channels<T>;
    for_near_rows(rows, c, [=](int64_t row, int64_t n) {
      const int64_t begin = row * c, end = (row + n) * c;
      for_channels<T>(
          c,
          [=](int64_t j, auto wide) {
            typename Some::Vector m[wide], s[wide], b[wide], v;
            for (int k = 0; k < wide; ++k) {
              Some::load(m[k], mean + j + k * Some::kCount);
              Some::load(s[k], scale + j + k * Some::kCount);
              Some::load(b[k], beta + j + k * Some::kCount);
            }
            for (int64_t i = begin + j; i < end; i += c)
              for (int k = 0; k < wide; ++k) {
                Some::load(v, x + i + k * Some::kCount);
                v = (v - m[k]) * s[k] + b[k];
                Some::store(v, y + i + k * Some::kCount);
              }
          },
          [=](int64_t j) {
            for (int64_t i = begin + j; i < end; i += c)
              y[i] = (x[i] - mean[j]) * scale[j] + beta[j];
          });
    });
  }
};

// scale = gamma / sqrt(variance + epsilon)
template <class T>
void set_scale(const KernelContext& ctx, const T* gamma, const T* variance, T* scale, int64_t c) {
  const T epsilon = static_cast<T>(ctx.attr<double>("epsilon"));
  for (int64_t j = 0; j < c; ++j) scale[j] = gamma[j] / std::sqrt(variance[j] + epsilon);
}

template <class T>
void normalize(KernelContext& ctx, const T* x, const T* gamma, const T* beta, const T* mean,
               const T* variance, T* y, int64_t rows, int64_t c) {
  if (c == 0 || rows == 0) return;
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{c});
  T* scale = scratch.mutable_data<T>();
  set_scale(ctx, gamma, variance, scale, c);
  in_row_groups(ctx, rows, c, [=, &ctx](int64_t first, int64_t count) {
    for_near_rows(count, c, [&](int64_t row, int64_t n) {
      const int64_t at = (first + row) * c;
      in_isa<NormalizeLoop>(x + at, mean, static_cast<const T*>(scale), beta, y + at, n, c);
      KernelCall::of(ctx).finish(at, n * c);
    });
  });
}

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

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  const Shape shape = require_channels(ctx, 1, 2, 2), channels{shape[shape.ndim() - 1]};
  return {shape, channels, channels};
}

std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return gradient_of_composition(ctx, [&](const std::vector<Output>& in) {
    const Output dy = in[0], x = in[1], gamma = in[2], mean = in[3], variance = in[4];
    const ReduceOptions rows{.axes = leading_axes(x)};
    const Output scale = 1 / sqrt(variance + ctx.attr<double>("epsilon"));
    const Output z = (x - mean) * scale;
    const Output inner = dy - reduce_mean(dy, rows) - z * reduce_mean(dy * z, rows);
    return std::vector<Output>{gamma * scale * inner, reduce_sum(dy * z, rows),
                               reduce_sum(dy, rows)};
  });
}

// Sums of dy, then of dy * (x - mean): [2 * c].
struct SumsLoop {
  template <class T>
  static void run(const T* dy, const T* x, const T* mean, T* sums, int64_t rows, int64_t c) {
    using Some = Channels<T>;
    T* products = sums + c;
    for_channels<T>(
        c,
        [=](int64_t j, auto wide) {
          typename Some::Vector sum[wide] = {}, product[wide] = {}, m[wide], d, v;
          for (int k = 0; k < wide; ++k) Some::load(m[k], mean + j + k * Some::kCount);
          for (int64_t i = j; i < rows * c; i += c)
            for (int k = 0; k < wide; ++k) {
              Some::load(d, dy + i + k * Some::kCount);
              Some::load(v, x + i + k * Some::kCount);
              sum[k] += d;
              product[k] += d * (v - m[k]);
            }
          for (int k = 0; k < wide; ++k) {
            Some::store(sum[k], sums + j + k * Some::kCount);
            Some::store(product[k], products + j + k * Some::kCount);
          }
        },
        [=](int64_t j) {
          T sum = 0, product = 0;
          for (int64_t i = j; i < rows * c; i += c) {
            sum += dy[i];
            product += dy[i] * (x[i] - mean[j]);
          }
          sums[j] = sum;
          products[j] = product;
        });
  }
};

// dx = scale * (dy - of_dy - (x - mean) * of_products), where of_dy and of_products are means.
struct InputGradientLoop {
  template <class T>
  static void run(const T* dy, const T* x, const T* mean, const T* scale, const T* of_dy,
                  const T* of_products, T* dx, int64_t rows, int64_t c) {
    using Some = Channels<T>;
    for_near_rows(rows, c, [=](int64_t row, int64_t n) {
      const int64_t begin = row * c, end = (row + n) * c;
      for_channels<T>(
          c,
          [=](int64_t j, auto wide) {
            typename Some::Vector m[wide], s[wide], of_d[wide], of_p[wide], d, v;
            for (int k = 0; k < wide; ++k) {
              Some::load(m[k], mean + j + k * Some::kCount);
              Some::load(s[k], scale + j + k * Some::kCount);
              Some::load(of_d[k], of_dy + j + k * Some::kCount);
              Some::load(of_p[k], of_products + j + k * Some::kCount);
            }
            for (int64_t i = begin + j; i < end; i += c)
              for (int k = 0; k < wide; ++k) {
                Some::load(d, dy + i + k * Some::kCount);
                Some::load(v, x + i + k * Some::kCount);
                d = s[k] * (d - of_d[k] - (v - m[k]) * of_p[k]);
                Some::store(d, dx + i + k * Some::kCount);
              }
          },
          [=](int64_t j) {
            for (int64_t i = begin + j; i < end; i += c)
              dx[i] = scale[j] * (dy[i] - of_dy[j] - (x[i] - mean[j]) * of_products[j]);
          });
    });
  }
};

template <class T>
void cpu_gradient(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T *dy = ctx.input(0).data<T>(), *x = ctx.input(1).data<T>();
  const T *gamma = ctx.input(2).data<T>(), *mean = ctx.input(3).data<T>();
  const T* variance = ctx.input(4).data<T>();
  const Shape shape = ctx.input(1).shape(), channels = ctx.input(2).shape();
  const int64_t c = channels[0], rows = rows_of(shape);
  T* dx = ctx.output(0, shape).template mutable_data<T>();
  T* dgamma = ctx.output(1, channels).template mutable_data<T>();
  T* dbeta = ctx.output(2, channels).template mutable_data<T>();
  if (c == 0) return;
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{3 * c});
  T *sums = scratch.mutable_data<T>(), *products = sums + c, *scale = sums + 2 * c;
  sum_rows(ctx, rows, 2 * c, 0, sums, [=](int64_t begin, int64_t n, T* to, T*) {
    in_isa<SumsLoop>(dy + begin * c, x + begin * c, mean, to, n, c);
  });
  const T epsilon = static_cast<T>(ctx.attr<double>("epsilon")), n = static_cast<T>(rows);
  for (int64_t j = 0; j < c; ++j) {
    const T square = variance[j] + epsilon, root = std::sqrt(square);
    dbeta[j] = sums[j];
    dgamma[j] = products[j] / root;
    scale[j] = gamma[j] / root;
    sums[j] /= n;
    products[j] /= n * square;
  }
  if (rows == 0) return;
  in_row_groups(ctx, rows, c, [=](int64_t first, int64_t count) {
    in_isa<InputGradientLoop>(dy + first * c, x + first * c, mean, static_cast<const T*>(scale),
                              static_cast<const T*>(sums), static_cast<const T*>(products),
                              dx + first * c, count, c);
  });
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

Op batch_norm_gradient_op() {
  return {.name = "BatchNormGradient",
          .inputs = {"dy", "x", "gamma", "mean", "variance"},
          .outputs = {"dx", "dgamma", "dbeta"},
          .attrs = epsilon_attr(1e-5),
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = float_kernels(cpu_gradient<float>, cpu_gradient<double>)};
}

NormGradient batch_norm_gradient(Output dy, Output x, Output gamma, Output mean, Output variance,
                                 double epsilon, Origin at) {
  const std::vector<Output> outputs =
      all_outputs(add_node({.op = "BatchNormGradient",
                            .inputs = {dy, x, gamma, mean, variance},
                            .attrs = {{"epsilon", epsilon}}},
                           at));
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace troupe
