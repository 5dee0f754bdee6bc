// DiagPartGradient: dx = zeros like x with dy as the diagonals.
//   dy: [..., min(m, n)]   x_like: [..., m, n], only its shape is used   dx: the shape of x_like.
#include "ops/diagonals.hpp"
#include "ops/node.hpp"
#include "ops/rows.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
void check_diagonals(const Context& ctx, const Shape& dy, const Shape& x) {
  const Shape wanted = diagonals_of(ctx, x);
  if (!may_equal(dy, wanted))
    throw ctx.error("wants dy of shape ", wanted, ", the diagonals of ", x, ", got ", dy);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_diagonals(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Writing g for the gradient of dx:  that of dy is the diagonals of g.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {diag_part(ctx.output_gradient(0)), Output{}};
}

void cpu(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape x = ctx.input(1).shape();
  check_diagonals(ctx, dy.shape(), x);
  Tensor& dx = ctx.output(0, x);
  if (dx.size() == 0) return;
  const int64_t m = x[x.ndim() - 2], n = x[x.ndim() - 1];
  const int64_t length = std::min(m, n), bytes = size_of(dy.dtype());
  const char* from = static_cast<const char*>(dy.raw());
  char* to = static_cast<char*>(dx.mutable_raw());
  std::memset(to, 0, static_cast<size_t>(dx.byte_size()));
  for (int64_t i = 0; i < dy.size(); i += length, from += length * bytes, to += m * n * bytes)
    copy_rows(length, bytes, from, to, same_row, [=](int64_t j) { return j * (n + 1); });
}

}  // namespace

Op diag_part_gradient_op() {
  return {.name = "DiagPartGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output diag_part_gradient(Output dy, Output x_like, Origin at) {
  return add_node({.op = "DiagPartGradient", .inputs = {dy, x_like}}, at);
}

}  // namespace troupe
