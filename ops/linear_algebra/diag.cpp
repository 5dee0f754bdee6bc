// Diag: y = matrices with the rows of x as their diagonals and zeros elsewhere.
//   x: [..., n]   y: [..., n, n], y[..., i, i] = x[..., i]
#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "ops/support/rows.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& x = ctx.input(0);
  if (x.ndim() < 1) throw ctx.error("wants diagonals [..., n], got a scalar; reshape it to [1]");
  if (x.ndim() >= Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions: ", x,
                    " has that many");
  std::vector<int64_t> y(x.begin(), x.end());
  y.push_back(y.back());
  return {Shape(y)};
}

// Writing dy for dL/dy:  dx = the diagonals of dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {diag_part(ctx.output_gradient(0))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output();
  if (y.size() == 0) return;
  const int64_t n = x.dim(x.ndim() - 1), bytes = size_of(x.dtype());
  const char* from = static_cast<const char*>(x.raw());
  char* to = static_cast<char*>(y.mutable_raw());
  std::memset(to, 0, static_cast<size_t>(y.byte_size()));
  for (int64_t i = 0; i < x.size(); i += n, from += n * bytes, to += n * n * bytes)
    copy_rows(n, bytes, from, to, same_row, [=](int64_t j) { return j * (n + 1); });
}

}  // namespace

Op diag_op() {
  return {.name = "Diag",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output diag(Output x, Origin at) { return add_node({.op = "Diag", .inputs = {x}}, at); }

}  // namespace troupe
