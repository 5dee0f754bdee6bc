// SparseDenseMatMul: y = a * b, or transpose(a) * b, of a sparse matrix a of the given shape that
// is 0 but for its elements; equal places add up, in the order of the elements.
//   indices: [elements, 2], rows and columns, i32 or i64   values: [elements]
//   a: [m, k]   b: [k, n], or [m, n] with `transpose`   y: [m, n], or [k, n]. Integers wrap around.
#include "ops/support/elementwise.hpp"
#include "ops/support/indices.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  if (ctx.dtype(1) != ctx.dtype(2))
    throw ctx.error("multiplies values of one dtype, got ", ctx.dtype(1), " and ", ctx.dtype(2),
                    "; cast one of them");
  return {ctx.dtype(1)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(1));
  const Shape &indices = ctx.input(0), &values = ctx.input(1), &b = ctx.input(2);
  const Shape& a = ctx.attr<Shape>("shape");
  const bool transpose = ctx.attr<bool>("transpose");
  if (a.ndim() != 2 || !a.is_known())
    throw ctx.error("wants the shape [m, k] of the sparse matrix, got ", a);
  if (indices.ndim() != 2 || values.ndim() != 1 || !may_equal(indices[0], values[0]) ||
      !may_equal(indices[1], 2))
    throw ctx.error("wants indices [elements, 2] and values [elements], got ", indices, " and ",
                    values);
  if (b.ndim() != 2 || !may_equal(b[0], a[transpose ? 0 : 1]))
    throw ctx.error("inner sizes differ: ", a, transpose ? " transposed" : "", " times ", b,
                    "; b is a matrix with ", a[transpose ? 0 : 1], " rows");
  return {Shape{a[transpose ? 1 : 0], b[1]}};
}

// Column `column` of the indices.
Output places(Output indices, int64_t column) {
  return reshape(slice(indices, {0, column}, {-1, 1}), Shape{-1});
}

// Writing dy for dL/dy:  db = transpose(a) * dy, or a * dy with `transpose`  and  dvalues[e] = the
// sum of dy[row of e in y] * b[row of e in b].
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output indices = ctx.input(0), values = ctx.input(1), b = ctx.input(2);
  const Output dy = ctx.output_gradient(0);
  const bool transpose = ctx.attr<bool>("transpose");
  const Output rows = gather(dy, places(indices, transpose ? 1 : 0));
  const Output rows_of_b = gather(b, places(indices, transpose ? 0 : 1));
  return {Output{}, reduce_sum(multiply(rows, rows_of_b), {.axes = {1}}),
          sparse_dense_matmul(indices, values, dy, ctx.attr<Shape>("shape"), !transpose)};
}

// `to`, `from`: 0 and 1, or 1 and 0: which of an element's indices names the row of y and of b.
struct ElementsLoop {
  template <class T, class I>
  static void run(const I* indices, const T* values, const T* b, T* y, int64_t elements, int64_t n,
                  int to, int from) {
    for (int64_t e = 0; e < elements; ++e) {
      const wrapping<T> factor = static_cast<wrapping<T>>(values[e]);
      const T* row = b + static_cast<int64_t>(indices[2 * e + from]) * n;
      T* sum = y + static_cast<int64_t>(indices[2 * e + to]) * n;
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < n; ++j)
        sum[j] = static_cast<T>(wrapping<T>(sum[j]) + factor * wrapping<T>(row[j]));
    }
  }
};

template <class I>
void check_places(const KernelContext& ctx, const I* indices, int64_t elements, const Shape& a) {
  for (int64_t e = 0; e < elements; ++e) {
    const int64_t row = indices[2 * e], column = indices[2 * e + 1];
    if (row < 0 || row >= a[0] || column < 0 || column >= a[1])
      throw ctx.error("element ", e, " of ", elements, " is at [", row, ", ", column,
                      "], which is not in ", a, "; indices count from 0");
  }
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T *values = ctx.input(1).data<T>(), *b = ctx.input(2).data<T>();
  const int64_t elements = ctx.input(1).size(), n = ctx.input(2).dim(1);
  const bool transpose = ctx.attr<bool>("transpose");
  with_indices(ctx.input(0), [&](const auto* indices) {
    check_places(ctx, indices, elements, ctx.attr<Shape>("shape"));
    Tensor& output = ctx.output();
    T* y = output.template mutable_data<T>();
    std::fill_n(y, output.size(), T{0});
    in_isa<ElementsLoop>(indices, values, b, y, elements, n, transpose ? 1 : 0, transpose ? 0 : 1);
  });
}

}  // namespace

Op sparse_dense_matmul_op() {
  return {.name = "SparseDenseMatMul",
          .inputs = {"indices", "values", "b"},
          .outputs = {"y"},
          .attrs = {{"shape", AttrKind::shape}, {"transpose", AttrKind::boolean, false}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = number_kernels(cpu<float>, cpu<double>, cpu<int32_t>, cpu<int64_t>),
          .dispatch = 1,
          .precision = Precision::wide};
}

Output sparse_dense_matmul(Output indices, Output values, Output b, Shape shape, bool transpose,
                           Origin at) {
  return add_node({.op = "SparseDenseMatMul",
                   .inputs = {indices, values, b},
                   .attrs = {{"shape", shape}, {"transpose", transpose}}},
                  at);
}

}  // namespace troupe
