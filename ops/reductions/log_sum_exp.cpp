// LogSumExp: y = log(the sum of e^x) over axes (all of them if none is named); finite for finite x,
// -infinity for an empty sum.
//   x: any shape, f32 or f64   y: x without the axes, or with size 1 there if keep_dims.
#include <limits>

#include "ops/gradients.hpp"
#include "ops/reductions/reduce.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * e^(x - y), and 0 if y, and so x, is -infinity.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), y = ctx.output(0), dy = ctx.output_gradient(0);
  const ReduceOptions options = reduce_options(ctx.node());
  const Output least = constant_like(-std::numeric_limits<double>::infinity(), y);
  const Output log_sum = where(equal(y, least), constant_like(0, y), y);
  const Output share = exp(subtract(x, reduce_gradient(log_sum, x, options)));
  return {multiply(reduce_gradient(dy, x, options), share)};
}

// e^(x - max), where max is replaced by 0 if it is infinite.
struct ExpOfAnyDifference {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x, T max) {
    return math::exp(x - max);
  }
};

// The sums use the trees of sum_reduction.

template <class T>
T sum_exp_run(const T* x, int64_t n, T max) {
  if (n > kRunMax) {
    const int64_t half = split_point(n, kRunMax);
    return sum_exp_run(x, half, max) + sum_exp_run(x + half, n - half, max);
  }
  T powers[kRunMax];
  zip_elements<ExpOfAnyDifference, 1, 0>(x, &max, powers, n);
  T sum;
  sum_reduction(dtype_of<T>).leaves(powers, n, kRunMax, &sum);
  return sum;
}

template <class T>
void sum_exp_columns(const T* x, int64_t rows, int64_t stride, int64_t columns, const T* max,
                     T* sum) {
  T more[kColumnsMax];
  if (rows <= kRowsMax) {
    zip_elements<ExpOfAnyDifference, 1, 1>(x, max, sum, columns);
    for (int64_t r = 1; r < rows; ++r) {
      zip_elements<ExpOfAnyDifference, 1, 1>(x + r * stride, max, more, columns);
      for (int64_t j = 0; j < columns; ++j) sum[j] += more[j];
    }
    return;
  }
  const int64_t half = split_point(rows, kRowsMax);
  sum_exp_columns(x, half, stride, columns, max, sum);
  sum_exp_columns(x + half * stride, rows - half, stride, columns, max, more);
  for (int64_t j = 0; j < columns; ++j) sum[j] += more[j];
}

template <class T>
void sum_exp(const KernelContext& ctx, const ReduceView& view, const T* max, T* sum) {
  const int64_t reduced = view.reduced, inner = view.inner;
  in_row_groups(ctx, view.outer, reduced * inner, [&](int64_t first, int64_t count) {
    for (int64_t o = first; o < first + count; ++o) {
      const T* x = static_cast<const T*>(view.x) + o * reduced * inner;
      const int64_t at = o * inner;
      if (inner == 1)
        sum[at] = sum_exp_run(x, reduced, max[at]);
      else
        for (int64_t j = 0; j < inner; j += kColumnsMax)
          sum_exp_columns(x + j, reduced, inner, std::min(kColumnsMax, inner - j), max + at + j,
                          sum + at + j);
    }
  });
}

struct AddLog {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T max, T sum) {
    return max + math::log(sum);
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const ReduceView view = reduce_view(ctx, x, reduced_axes(ctx, x.ndim()));
  T* y = ctx.output().mutable_data<T>();
  reduce_elements(ctx, greatest_reduction(dtype_of<T>), view, y);
  if (view.reduced == 0) return;
  const int64_t n = view.outer * view.inner;
  // Infinity minus infinity would be NaN; with a maximum of 0 instead, the sum is infinite or 0 as
  // it should.
  for (int64_t i = 0; i < n; ++i) y[i] = std::isfinite(y[i]) ? y[i] : T{0};
  Tensor sums = ctx.scratch(dtype_of<T>, Shape{n});
  T* sum = sums.mutable_data<T>();
  sum_exp(ctx, view, y, sum);
  if (n > 0) zip_elements<AddLog, 1, 1>(y, sum, y, n);
}

}  // namespace

Op log_sum_exp_op() {
  return reduce_op("LogSumExp", infer_reduced, gradient, float_kernels(cpu<float>, cpu<double>),
                   Precision::wide);
}

Output log_sum_exp(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "LogSumExp", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
