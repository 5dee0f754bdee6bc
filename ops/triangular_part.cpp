// TriangularPart: y = the lower (or upper) triangle of x, its diagonal times a number; 0 elsewhere,
// whatever x is there.
//   x, y: [..., m, n]. What the gradients of triangular factors are made of (Murray 2016).
#include "ops/matrices.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_matrices(ctx, 0);
  return {ctx.input(0)};
}

// Linear, and its own adjoint: dx = the same part of dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {triangular_part(ctx.output_gradient(0), ctx.attr<bool>("lower"),
                          ctx.attr<double>("diagonal"))};
}

template <class T>
void cpu(KernelContext& ctx) {
  const Batch batch = batch_of(ctx.input(0));
  const bool lower = ctx.attr<bool>("lower");
  const T factor = static_cast<T>(ctx.attr<double>("diagonal"));
  const T* x = ctx.input(0).data<T>();
  T* y = ctx.output_in_place().template mutable_data<T>();
  for (int64_t i = 0; i < batch.count * batch.rows; ++i, x += batch.columns, y += batch.columns) {
    const int64_t row = i % batch.rows, columns = batch.columns;
    const int64_t diagonal = std::min(row, columns);
    const int64_t after = std::min(row + 1, columns);
    const T at_diagonal = diagonal < columns ? x[diagonal] : T{0};
    if (y != x) std::copy_n(x, columns, y);
    if (lower)
      std::fill(y + after, y + columns, T{0});
    else
      std::fill_n(y, diagonal, T{0});
    if (diagonal < columns) y[diagonal] = factor == 0 ? T{0} : factor * at_diagonal;
  }
}

}  // namespace

Op triangular_part_op() {
  return {.name = "TriangularPart",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"lower", AttrKind::boolean, true}, {"diagonal", AttrKind::real, 1.0}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}},
          .in_place = true};
}

Output triangular_part(Output x, bool lower, double diagonal) {
  return add_node(
      {.op = "TriangularPart", .inputs = {x}, .attrs = {{"lower", lower}, {"diagonal", diagonal}}},
      Origin::here());
}

}  // namespace troupe
