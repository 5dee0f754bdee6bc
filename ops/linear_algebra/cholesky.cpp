// Cholesky: the lower triangular l with l * transpose(l) = a.
//   a, l: [..., n, n], f32 or f64. Only the lower triangle of a is read; above the diagonal, l is
//   0.
#include <utility>

#include "ops/linear_algebra/matrices.hpp"

namespace troupe {
namespace {

// Murray, Differentiation of the Cholesky decomposition, 2016, equation 10. Writing dl for dL/dl
// and P for the lower triangle with half its diagonal:
//   s = transpose(l)^-1 * P(transpose(l) * dl) * l^-1,
// and da = the lower triangle of s + transpose(s), its diagonal halved, as only that of a is read.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output l = ctx.output(0), dl = ctx.output_gradient(0);
  const Output p = halved_triangle(matmul(l, dl, {.transpose_a = true}));
  const Output left = triangular_solve(l, p, {.transpose = true});
  return {lower_gradient(triangular_solve(l, transposed(left), {.transpose = true}))};
}

// Computes transpose(l) row by row in l, so that the inner loop runs along rows, and turns it over.
// Returns the first row where a is seen not to be positive definite, or -1.
struct CholeskyLoop {
  template <class T>
  static int64_t run(const T* a, T* l, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      T* row = l + i * n;
      for (int64_t j = i; j < n; ++j) row[j] = a[j * n + i];
      for (int64_t k = 0; k < i; ++k) subtract_row(l[k * n + i], l + k * n + i, row + i, n - i);
      if (row[i] <= 0) return i;  // not NaN, which spreads
      const T root = std::sqrt(row[i]);
      for (int64_t j = i; j < n; ++j) row[j] /= root;
      row[i] = root;
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) l[j * n + i] = std::exchange(l[i * n + j], T{0});
    return -1;
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Batch batch = batch_of(ctx.input(0));
  const T* a = ctx.input(0).data<T>();
  T* l = ctx.output().mutable_data<T>();
  for (int64_t i = 0; i < batch.count; ++i) {
    const int64_t row =
        in_isa<CholeskyLoop>(a + i * batch.size(), l + i * batch.size(), batch.rows);
    if (row >= 0)
      throw ctx.error(which_matrix(i, batch.count), " is not positive definite: row ", row,
                      " leaves no positive number on the diagonal; add a multiple of the identity");
  }
}

}  // namespace

Op cholesky_op() {
  return matrix_op("Cholesky", {"a"}, {"l"}, infer_square, gradient,
                   float_kernels(cpu<float>, cpu<double>));
}

Output cholesky(Output a, Origin at) { return add_node({.op = "Cholesky", .inputs = {a}}, at); }

}  // namespace troupe
