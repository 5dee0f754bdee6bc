// DiagPart: y = the diagonals of matrices.
//   x: [..., m, n]   y: [..., min(m, n)], y[..., i] = x[..., i, i]
#include "ops/diagonals.hpp"
#include "ops/node.hpp"
#include "ops/rows.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {diagonals_of(ctx, ctx.input(0))};
}

// Writing dy for dL/dy:  dx = zeros with dy as the diagonals.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {diag_part_gradient(ctx.output_gradient(0), ctx.input(0))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape();
  Tensor& y = ctx.output(0, diagonals_of(ctx, shape));
  if (y.size() == 0) return;
  const int64_t m = shape[shape.ndim() - 2], n = shape[shape.ndim() - 1];
  const int64_t length = std::min(m, n), bytes = size_of(x.dtype());
  const char* from = static_cast<const char*>(x.raw());
  char* to = static_cast<char*>(y.mutable_raw());
  for (int64_t i = 0; i < y.size(); i += length, from += m * n * bytes, to += length * bytes)
    copy_rows(
        length, bytes, from, to, [=](int64_t j) { return j * (n + 1); }, same_row);
}

}  // namespace

Op diag_part_op() {
  return {.name = "DiagPart",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output diag_part(Output x, Origin at) { return add_node({.op = "DiagPart", .inputs = {x}}, at); }

}  // namespace troupe
