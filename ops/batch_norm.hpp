// What batch_norm, its gradient and batch_norm_inference share.
#pragma once

#include "ops/norm.hpp"

namespace troupe {

// Of x [..., c]: how many rows of channels there are to sum; none without channels.
inline int64_t rows_of(const Shape& x) { return x.size() > 0 ? x.size() / x[x.ndim() - 1] : 0; }

// y = (x - mean) * scale + beta. y may be x.
struct NormalizeLoop {
  template <class T>
  static void run(const T* x, const T* mean, const T* scale, const T* beta, T* y, int64_t rows,
                  int64_t c) {
    for (int64_t row = 0; row < rows; ++row, x += c, y += c) {
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < c; ++j) y[j] = (x[j] - mean[j]) * scale[j] + beta[j];
    }
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
  in_row_groups(ctx, rows, c, [=](int64_t first, int64_t count) {
    in_isa<NormalizeLoop>(x + first * c, mean, static_cast<const T*>(scale), beta, y + first * c,
                          count, c);
  });
}

}  // namespace troupe
