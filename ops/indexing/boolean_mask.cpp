// BooleanMask: y = the slices of x whose mask is true, in row-major order of the mask.
//   x: [m..., rest...]   mask: [m...], bool, of at least one dimension   y: [count, rest...]
#include "ops/support/axes.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/rows.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  if (ctx.dtype(1) != DType::boolean)
    throw ctx.error("wants a bool mask, got ", ctx.dtype(1), "; compare it with something");
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &mask = ctx.input(1);
  if (mask.ndim() < 1 || !begins_with(x, mask))
    throw ctx.error("wants a mask of one or more of the first dimensions of ", x, ", got ", mask);
  return {shape_with_rows(-1, sizes_from(x, mask.ndim()))};
}

// Writing dy for dL/dy:  dx = dy at the selected slices, zeros elsewhere.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0);
  if (!is_floating(x.dtype())) return {Output{}, Output{}};
  return {tensor_scatter_add(zeros_like(x), nonzero(ctx.input(1)), ctx.output_gradient(0)),
          Output{}};
}

void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &x = ctx.input(0), &mask = ctx.input(1);
  const Shape shape = x.shape();
  const bool* holds = mask.data<bool>();
  const int64_t count = std::count(holds, holds + mask.size(), true);
  Tensor& y = ctx.output(0, shape_with_rows(count, sizes_from(shape, mask.ndim())));
  if (y.size() == 0) return;
  int64_t next = 0;
  const auto from = [&](int64_t) {
    while (!holds[next]) ++next;
    return next++;
  };
  const int64_t bytes = size_between(shape, mask.ndim(), shape.ndim()) * size_of(x.dtype());
  copy_rows(count, bytes, x.raw(), y.mutable_raw(), from, same_row);
}

}  // namespace

Op boolean_mask_op() {
  return {.name = "BooleanMask",
          .inputs = {"x", "mask"},
          .outputs = {"y"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .value_shapes = true};
}

Output boolean_mask(Output x, Output mask, Origin at) {
  return add_node({.op = "BooleanMask", .inputs = {x, mask}}, at);
}

}  // namespace troupe
