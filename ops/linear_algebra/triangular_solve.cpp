// TriangularSolve: the x with a * x = b, or transpose(a) * x = b, of a triangular a.
//   a: [..., n, n], of which only the lower (or upper) triangle is read   b, x: [..., n, k]
#include "ops/linear_algebra/matrices.hpp"

namespace troupe {
namespace {

TriangularSolveOptions options_of(const Node& node) {
  return {node.attr<bool>("lower"), node.attr<bool>("transpose")};
}

// Writing dx for dL/dx:  db = the solution for dx with a transposed (Giles, An extended collection
// of matrix derivative results, 2008, section 2.3.1)  and  da = -db * transpose(x), or -x *
// transpose(db) if a is transposed; of the triangle that is read.
std::vector<Output> gradient(const GradientContext& ctx) {
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
void cpu(KernelContext& ctx) {
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

Op triangular_solve_op() {
  return {.name = "TriangularSolve",
          .inputs = {"a", "b"},
          .outputs = {"x"},
          .attrs = {{"lower", AttrKind::boolean, true}, {"transpose", AttrKind::boolean, false}},
          .infer_shapes = infer_equations,
          .gradient = gradient,
          .kernels = float_kernels(cpu<float>, cpu<double>),
          .precision = Precision::wide};
}

Output triangular_solve(Output a, Output b, TriangularSolveOptions options, Origin at) {
  return add_node({.op = "TriangularSolve",
                   .inputs = {a, b},
                   .attrs = {{"lower", options.lower}, {"transpose", options.transpose}}},
                  at);
}

}  // namespace troupe
