// Softmax: y[..., j] = e^x[..., j] / (the sum of e^x over the last dimension). Finite for all
// finite x.
//   x, y: [..., classes], f32 or f64.
#include "ops/support/row.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  if (ctx.input(0).ndim() < 1) throw ctx.error("wants logits [..., classes], got a scalar");
  return {ctx.input(0)};
}

// Writing dy for dL/dy:  dx = (dy - sum(dy * y)) * y, the sum over the last dimension.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output sum = reduce_sum(multiply(dy, y), {.axes = {-1}, .keep_dims = true});
  return {multiply(subtract(dy, sum), y)};
}

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const T* x = input.data<T>();
  const int64_t size = input.size(), classes = input.dim(input.ndim() - 1);
  T* y = ctx.output_in_place().template mutable_data<T>();
  if (size == 0) return;
  in_rows(ctx, size / classes, classes, [=](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row)
      in_isa<SoftmaxRowLoop>(x + row * classes, y + row * classes, classes);
  });
}

}  // namespace

Op softmax_op() {
  return {.name = "Softmax",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = float_kernels(cpu<float>, cpu<double>),
          .in_place = true,
          .precision = Precision::wide};
}

Output softmax(Output logits, Origin at) {
  return add_node({.op = "Softmax", .inputs = {logits}}, at);
}

}  // namespace troupe
