// Shared by layer_norm, rms_norm, batch_norm and their gradients: shape rules, sums over rows, and
// loops over rows of channels.
//   x: [..., c]   gamma, beta, mean, variance: [c]
#pragma once

#include <bit>
#include <cmath>

#include "ops/elementwise/composition.hpp"
#include "ops/reductions/reduce.hpp"
#include "ops/support/row.hpp"

namespace troupe {

// ---- shape rules ----

inline std::vector<AttrSpec> epsilon_attr(double epsilon) {
  return {{"epsilon", AttrKind::real, epsilon}};
}

// Checks the inputs: number `x` is [..., c], those from `vectors` on are [c], and those before
// `vectors` have the shape of x. Throws: Error if one does not fit. Returns the shape of x, with c
// taken from the vectors if x does not know it.
inline Shape require_channels(const InferContext& ctx, int x, int vectors, int ndim_min) {
  require_kernel(ctx, ctx.dtype(0));
  if (!(ctx.attr<double>("epsilon") >= 0))
    throw ctx.error("wants epsilon >= 0, got ", ctx.attr<double>("epsilon"));
  Shape shape = ctx.input(x);
  if (shape.ndim() < ndim_min)
    throw ctx.error("wants x [..., channels] of at least ", ndim_min,
                    ndim_min == 1 ? " dimension" : " dimensions", ", got ", shape);
  const int last = shape.ndim() - 1;
  for (int i = 0; i < ctx.input_count(); ++i) {
    const Shape& one = ctx.input(i);
    if (i < vectors && !may_equal(one, shape))
      throw ctx.error("wants dy in the shape of x, got ", one, " and ", shape);
    if (i < vectors) continue;
    if (one.ndim() != 1 || !may_equal(one[0], shape[last]))
      throw ctx.error("wants one ", ctx.node().op->inputs[static_cast<size_t>(i)],
                      " for each channel of ", shape, ", got ", one);
    if (shape[last] < 0) shape.set(last, one[0]);
  }
  return shape;
}

inline std::vector<int64_t> leading_axes(Output x) {
  std::vector<int64_t> axes;
  for (int d = 0; d + 1 < x.shape().ndim(); ++d) axes.push_back(d);
  return axes;
}

// x [..., c] -> [c]
inline Output sum_to_channels(Output x) {
  return x.shape().ndim() == 1 ? x : reduce_sum(x, {.axes = leading_axes(x)});
}

// ---- sums over rows ----

// sums[0, width) over `rows` rows from `begin`: one subtree of sum_rows(). `spare` has spare_size()
// elements.
template <class T, class Leaf>
void sum_subtree(int64_t begin, int64_t rows, int64_t width, T* sums, T* spare, const Leaf& leaf) {
  if (rows <= kRowsMax) return leaf(begin, rows, sums);
  const int64_t half = split_point(rows, kRowsMax);
  sum_subtree(begin, half, width, sums, spare, leaf);
  sum_subtree(begin + half, rows - half, width, spare, spare + width, leaf);
  for (int64_t j = 0; j < width; ++j) sums[j] += spare[j];
}

inline int64_t spare_size(int64_t rows, int64_t width) {
  return width * (1 + std::bit_width(static_cast<uint64_t>(rows / kRowsMax)));
}

// sums[0, width) over all rows, as a tree whose form depends on the number of rows alone.
// leaf(begin, n, sums, scratch) sets the sums over n <= kRowsMax rows; it has `scratch_size`
// elements of scratch.
template <class T, class Leaf>
void sum_rows(KernelContext& ctx, int64_t rows, int64_t width, int64_t scratch_size, T* sums,
              const Leaf& leaf) {
  const int64_t group = rows_per_job(std::max<int64_t>(1, width));
  const int64_t jobs = std::max<int64_t>(1, ceil_div(rows, group));
  const int64_t spare = spare_size(std::min(rows, group), width);
  Tensor memory = ctx.scratch(dtype_of<T>, Shape{jobs * (width + spare + scratch_size)});
  T *parts = memory.mutable_data<T>(), *spares = parts + jobs * width;
  ctx.parallel(jobs, [=, &leaf](int64_t job) {
    T* of_job = spares + job * (spare + scratch_size);
    const auto own_leaf = [&](int64_t begin, int64_t n, T* to) {
      leaf(begin, n, to, of_job + spare);
    };
    sum_subtree(job * group, std::min(group, rows - job * group), width, parts + job * width,
                of_job, own_leaf);
  });
  join_parts<Add>(parts, jobs, width);
  std::copy_n(parts, width, sums);
}

// ---- one row ----

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
inline std::vector<Output> row_norm_gradient(Output dy, Output x, Output gamma, double epsilon,
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

}  // namespace troupe
