// Shape rules, batches, and loops over rows for ops on matrices. A matrix is the last two
// dimensions of a tensor, row by row; those before count a batch.
#pragma once

#include <cmath>

#include "ops/support/axes.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/regroup.hpp"

namespace troupe {

// ---- shape rules ----

inline void require_matrices(const InferContext& ctx, int i) {
  require_kernel(ctx, ctx.dtype(0));
  if (ctx.input(i).ndim() < 2)
    throw ctx.error("wants matrices [..., rows, columns], got ", ctx.input(i), "; reshape them");
}

inline void require_square(const InferContext& ctx, int i) {
  require_matrices(ctx, i);
  const Shape& x = ctx.input(i);
  if (!may_equal(x[x.ndim() - 2], x[x.ndim() - 1]))
    throw ctx.error("wants square matrices [..., n, n], got ", x);
}

// The known one of two sizes that are equal.
inline int64_t either(int64_t a, int64_t b) { return a < 0 ? b : a; }

// The shape of x [..., n, n] with n known in both places if it is in one.
inline Shape square_shape(const Shape& x) {
  Shape shape = x;
  const int64_t n = either(x[x.ndim() - 2], x[x.ndim() - 1]);
  shape.set(x.ndim() - 2, n);
  shape.set(x.ndim() - 1, n);
  return shape;
}

inline std::vector<Shape> infer_square(const InferContext& ctx) {
  require_square(ctx, 0);
  return {square_shape(ctx.input(0))};
}

// The leading dimensions and these.
inline Shape batch_shape(const Shape& x, std::initializer_list<int64_t> last) {
  return joined_sizes(x.dims().first(x.dims().size() - 2), {last.begin(), last.size()});
}

// For a [..., n, n] and b [..., n, k]. Throws: Error naming both. Returns the shape of b, or what
// is known of it from a.
inline std::vector<Shape> infer_equations(const InferContext& ctx) {
  require_square(ctx, 0);
  require_matrices(ctx, 1);
  const Shape a = square_shape(ctx.input(0)), &b = ctx.input(1);
  const int last = b.ndim() - 2;
  if (a.ndim() != b.ndim())
    throw ctx.error("leading dimensions differ: ", a, " and ", b,
                    "; make them equal, and a vector [..., n] a matrix [..., n, 1]");
  Shape x = b;
  for (int d = 0; d <= last; ++d) {
    if (!may_equal(a[d], b[d]))
      throw ctx.error(d < last ? "leading dimensions" : "numbers of rows", " differ: ", a, " and ",
                      b, "; make them equal");
    x.set(d, either(b[d], a[d]));
  }
  return {x};
}

// An op on matrices of f32 or f64.
inline Op matrix_op(const char* name, std::vector<std::string> inputs,
                    std::vector<std::string> outputs, decltype(Op::infer_shapes) infer_shapes,
                    decltype(Op::gradient) gradient, std::vector<Kernel> kernels) {
  return {.name = name,
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = std::move(kernels),
          .precision = Precision::wide};
}

// ---- gradients ----

inline Output transposed(Output x) {
  const int ndim = x.shape().ndim();
  std::vector<int64_t> order;
  for (int d = 0; d < ndim; ++d) order.push_back(d < ndim - 2 ? d : 2 * ndim - 3 - d);
  return transpose(x, order);
}

// The lower triangle of x with half its diagonal; zeros beyond, whatever x is there (Murray 2016).
inline Output halved_triangle(Output x) { return tril(x, -1) + band_part(x, 0, 0) * 0.5; }

// dL/da of a function that reads only the lower triangle of a symmetric a, from the gradient s that
// takes no notice of that.
inline Output lower_gradient(Output s) { return halved_triangle(s + transposed(s)); }

// 1 / x, and 0 for 0.
inline Output reciprocal_or_zero(Output x) {
  const Output zero = constant_like(0, x), is_zero = equal(x, zero);
  return where(is_zero, zero, divide(constant_like(1, x), where(is_zero, constant_like(1, x), x)));
}

// ---- kernels ----

struct Batch {
  int64_t count = 0, rows = 0, columns = 0;  // no count where there are no elements
  int64_t size() const { return rows * columns; }
};

inline Batch batch_of(const Tensor& x) {
  const int ndim = x.ndim();
  Batch batch{.rows = x.dim(ndim - 2), .columns = x.dim(ndim - 1)};
  if (x.size() > 0) batch.count = x.size() / batch.size();
  return batch;
}

// "matrix 2 of 3", counted from 0, for errors.
inline std::string which_matrix(int64_t i, int64_t count) {
  if (count == 1) return "the matrix";
  return detail::concat("matrix ", i, " of ", count, ", counted from 0,");
}

// The sum of x[i] * y[i], in a fixed order; in a loop for in_isa() it becomes vectors.
template <class T>
T row_dot(const T* x, const T* y, int64_t n) {
  constexpr int kParts = 16;
  T part[kParts] = {};
  int64_t i = 0;
  for (; i + kParts <= n; i += kParts)
    for (int j = 0; j < kParts; ++j) part[j] += x[i + j] * y[i + j];
  for (int j = 0; i < n; ++i, ++j) part[j] += x[i] * y[i];
  for (int width = kParts / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) part[j] += part[j + width];
  return part[0];
}

// y -= factor * x
template <class T>
void subtract_row(T factor, const T* x, T* y, int64_t n) {
  TROUPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] -= factor * x[i];
}

// Solves a * x = b in x, which holds b, [n, k]. Element i, j of a, [n, n], is a[i * row + j *
// column]; it is lower triangular if `lower`, and `unit` says that its diagonal is 1.
struct TriangularLoop {
  template <class T>
  static void run(const T* a, int64_t row, int64_t column, bool lower, bool unit, T* x, int64_t n,
                  int64_t k) {
    for (int64_t s = 0; s < n; ++s) {
      const int64_t i = lower ? s : n - 1 - s;
      T* to = x + i * k;
      for (int64_t t = 0; t < s; ++t) {
        const int64_t j = lower ? t : n - 1 - t;
        subtract_row(a[i * row + j * column], x + j * k, to, k);
      }
      if (unit) continue;
      const T pivot = a[i * (row + column)];
      for (int64_t j = 0; j < k; ++j) to[j] /= pivot;
    }
  }
};

}  // namespace troupe
