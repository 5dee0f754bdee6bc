// BatchNormGradient: dL/dx, dL/dgamma and dL/dbeta of y = batch_norm(x), from dy = dL/dy. Writing z
// = (x - mean) / sqrt(variance + epsilon), and sums and means over all dimensions but the last:
//   dx = gamma / sqrt(variance + epsilon) * (dy - mean(dy) - z * mean(dy * z))
//   dgamma = sum(dy * z), dbeta = sum(dy)
//   dy, x, dx: [..., c], f32 or f64   gamma, mean, variance, dgamma, dbeta: [c]
#include "ops/gradients.hpp"
#include "ops/nn/batch_norm.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape shape = require_channels(ctx, 1, 2, 2), channels{shape[shape.ndim() - 1]};
  return {shape, channels, channels};
}

std::vector<Output> gradient(const GradientContext& ctx) {
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
struct SumLoop {
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
void cpu(KernelContext& ctx) {
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
    in_isa<SumLoop>(dy + begin * c, x + begin * c, mean, to, n, c);
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

Op batch_norm_gradient_op() {
  return {.name = "BatchNormGradient",
          .inputs = {"dy", "x", "gamma", "mean", "variance"},
          .outputs = {"dx", "dgamma", "dbeta"},
          .attrs = epsilon_attr(1e-5),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = float_kernels(cpu<float>, cpu<double>)};
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
