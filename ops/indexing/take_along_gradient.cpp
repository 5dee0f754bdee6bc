// TakeAlongGradient: dx = zeros, then dx[..., indices[..., j, ...], ...] += dy[..., j, ...], in the
// order of the indices.
//   dy, indices: [..., m, ...], indices i32 or i64, each in [0, n)   x_like, dx: [..., n, ...]
// Only the shape of x_like is read.
#include <algorithm>

#include "ops/gradients.hpp"
#include "ops/indexing/take_along.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  if (ctx.dtype(0) != ctx.dtype(2))
    throw ctx.error("dy and x_like must have one dtype, got ", ctx.dtype(0), " and ", ctx.dtype(2),
                    "; cast one of them");
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dy = ctx.input(0), &indices = ctx.input(1), &x = ctx.input(2);
  if (!may_equal(dy, indices))
    throw ctx.error("wants a dy for each index, got ", dy, " for ", indices);
  checked_along(ctx, x, indices);
  return {x};
}

// Linear in dy. Writing g for dL/d(dx), the gradient of dy is g taken along the same indices.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {take_along(ctx.output_gradient(0), ctx.input(1), ctx.attr<int64_t>("axis")), Output{},
          Output{}};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Shape indices = ctx.input(1).shape(), x = ctx.input(2).shape();
  const int axis = checked_along(ctx, x, indices);
  const T* dy = ctx.input(0).data<T>();
  const int64_t count = ctx.input(1).size();
  with_indices(ctx.input(1), [&](const auto* index) {
    check_indices(ctx, index, count, x[axis]);
    Tensor& output = ctx.output(0, x);
    T* dx = output.mutable_data<T>();
    std::fill_n(dx, output.size(), T{0});
    if (count == 0) return;
    for_each_along(x, indices, axis, index, [&](int64_t i, int64_t at) { dx[at] += dy[i]; });
  });
}

}  // namespace

Op take_along_gradient_op() {
  return {.name = "TakeAlongGradient",
          .inputs = {"dy", "indices", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"axis", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}}};
}

Output take_along_gradient(Output dy, Output indices, Output x_like, int64_t axis, Origin at) {
  return add_node(
      {.op = "TakeAlongGradient", .inputs = {dy, indices, x_like}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe
