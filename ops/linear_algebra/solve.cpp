// Solve: the x with a * x = b, or transpose(a) * x = b, by LU with partial pivoting.
//   a: [..., n, n]   b, x: [..., n, k], f32 or f64
//
// Inverse: y with a * y = the identity, by LU with partial pivoting.
//   a, y: [..., n, n], f32 or f64. To solve equations, `solve` is faster and more accurate.
//
// TriangularSolve: the x with a * x = b, or transpose(a) * x = b, of a triangular a.
//   a: [..., n, n], of which only the lower (or upper) triangle is read   b, x: [..., n, k]
#include "ops/linear_algebra/lu.hpp"
#include "ops/linear_algebra/matrices.hpp"

namespace troupe {
namespace {

// Giles, An extended collection of matrix derivative results, 2008, section 2.3.1. Writing dx for
// dL/dx:  db = the solution for dx with a transposed  and  da = -db * transpose(x), or -x *
// transpose(db) if a is transposed.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), x = ctx.output(0), dx = ctx.output_gradient(0);
  const bool transpose = ctx.attr<bool>("transpose");
  const Output db = solve(a, dx, !transpose);
  const Output da =
      transpose ? matmul(x, db, {.transpose_b = true}) : matmul(db, x, {.transpose_b = true});
  return {negate(da), db};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const bool transpose = ctx.attr<bool>("transpose");
  const T *a = ctx.input(0).data<T>(), *b = ctx.input(1).data<T>();
  const Batch batch = batch_of(ctx.input(1));
  const int64_t n = batch.rows;
  T* x = ctx.output().mutable_data<T>();
  if (batch.count == 0) return;
  Lu<T> lu(ctx, n);
  for (int64_t i = 0; i < batch.count; ++i) {
    lu.factorize(a + i * n * n);
    lu.require_regular(ctx, i, batch.count);
    lu.solve(b + i * batch.size(), transpose, x + i * batch.size(), batch.columns);
  }
}

// Giles, An extended collection of matrix derivative results, 2008, section 2.2.3. Writing dy for
// dL/dy:  da = -transpose(y) * dy * transpose(y).
std::vector<Output> gradient_of_inverse(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output left = matmul(y, dy, {.transpose_a = true});
  return {negate(matmul(left, y, {.transpose_b = true}))};
}

template <class T>
void cpu_inverse(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T* a = ctx.input(0).data<T>();
  const Batch batch = batch_of(ctx.input(0));
  T* y = ctx.output().mutable_data<T>();
  if (batch.count == 0) return;
  Lu<T> lu(ctx, batch.rows);
  for (int64_t i = 0; i < batch.count; ++i) {
    lu.factorize(a + i * batch.size());
    lu.require_regular(ctx, i, batch.count);
    lu.solve(nullptr, /*transpose=*/false, y + i * batch.size(), batch.rows);
  }
}

TriangularSolveOptions options_of(const Node& node) {
  return {node.attr<bool>("lower"), node.attr<bool>("transpose")};
}

// Writing dx for dL/dx:  db = the solution for dx with a transposed (Giles, An extended collection
// of matrix derivative results, 2008, section 2.3.1)  and  da = -db * transpose(x), or -x *
// transpose(db) if a is transposed; of the triangle that is read.
std::vector<Output> gradient_of_triangular(const GradientContext& ctx) {
  const Output a = ctx.input(0), x = ctx.output(0), dx = ctx.output_gradient(0);
  TriangularSolveOptions options = options_of(ctx.node());
  const bool transposed = options.transpose;
  options.transpose = !transposed;
  const Output db = triangular_solve(a, dx, options);
  const Output da =
      transposed ? matmul(x, db, {.transpose_b = true}) : matmul(db, x, {.transpose_b = true});
  return {options.lower ? tril(negate(da)) : triu(negate(da)), db};
}

template <class T>
void cpu_triangular(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const TriangularSolveOptions options = options_of(ctx.node());
  const T *a = ctx.input(0).data<T>(), *b = ctx.input(1).data<T>();
  const Batch batch = batch_of(ctx.input(1));
  const int64_t n = batch.rows;
  for (int64_t i = 0; i < batch.count; ++i)
    for (int64_t j = 0; j < n; ++j)
      if (a[(i * n + j) * n + j] == 0)
        throw ctx.error(which_matrix(i, batch.count), " is singular: element ", j,
                        " of its diagonal is 0");
  T* x = ctx.output().mutable_data<T>();
  std::copy_n(b, ctx.input(1).size(), x);
  for (int64_t i = 0; i < batch.count; ++i)
    in_isa<TriangularLoop>(a + i * n * n, options.transpose ? int64_t{1} : n,
                           options.transpose ? n : int64_t{1}, options.lower != options.transpose,
                           /*unit=*/false, x + i * batch.size(), n, batch.columns);
}

}  // namespace

Op solve_op() {
  return {.name = "Solve",
          .inputs = {"a", "b"},
          .outputs = {"x"},
          .attrs = {{"transpose", AttrKind::boolean, false}},
          .infer_shapes = infer_equations,
          .gradient = gradient,
          .kernels = float_kernels(cpu<float>, cpu<double>),
          .precision = Precision::wide};
}

Output solve(Output a, Output b, bool transpose, Origin at) {
  return add_node({.op = "Solve", .inputs = {a, b}, .attrs = {{"transpose", transpose}}}, at);
}

Op inverse_op() {
  return matrix_op("Inverse", {"a"}, {"y"}, infer_square, gradient_of_inverse,
                   float_kernels(cpu_inverse<float>, cpu_inverse<double>));
}

Output inverse(Output a, Origin at) { return add_node({.op = "Inverse", .inputs = {a}}, at); }

Op triangular_solve_op() {
  return {.name = "TriangularSolve",
          .inputs = {"a", "b"},
          .outputs = {"x"},
          .attrs = {{"lower", AttrKind::boolean, true}, {"transpose", AttrKind::boolean, false}},
          .infer_shapes = infer_equations,
          .gradient = gradient_of_triangular,
          .kernels = float_kernels(cpu_triangular<float>, cpu_triangular<double>),
          .precision = Precision::wide};
}

Output triangular_solve(Output a, Output b, TriangularSolveOptions options, Origin at) {
  return add_node({.op = "TriangularSolve",
                   .inputs = {a, b},
                   .attrs = {{"lower", options.lower}, {"transpose", options.transpose}}},
                  at);
}

}  // namespace troupe
