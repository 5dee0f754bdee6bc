// TakeAlong: y = x[..., indices[..., j, ...], ...], elements chosen along one axis (NumPy's
// take_along_axis).
//   x: [..., n, ...] of any dtype   indices, y: [..., m, ...], i32 or i64, each in [0, n)
#include "ops/gradients.hpp"
#include "ops/indexing/take_along.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  checked_along(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return {take_along_gradient(ctx.output_gradient(0), ctx.input(1), ctx.input(0),
                              ctx.attr<int64_t>("axis")),
          Output{}};
}

template <class I>
void cpu(KernelContext& ctx) {
  const Shape x = ctx.input(0).shape(), indices = ctx.input(1).shape();
  const int axis = checked_along(ctx, x, indices);
  const I* index = ctx.input(1).data<I>();
  const int64_t count = ctx.input(1).size();
  check_indices(ctx, index, count, x[axis]);
  Tensor& y = ctx.output(0, indices);
  if (count == 0) return;
  with_type(y.dtype(), [&]<class T>(T) {
    const T* from = ctx.input(0).data<T>();
    T* to = y.mutable_data<T>();
    for_each_along(x, indices, axis, index, [&](int64_t i, int64_t at) { to[i] = from[at]; });
  });
}

}  // namespace

Op take_along_op() {
  return {.name = "TakeAlong",
          .inputs = {"x", "indices"},
          .outputs = {"y"},
          .attrs = {{"axis", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::i32, cpu<int32_t>},
                      {DeviceKind::cpu, DType::i64, cpu<int64_t>}},
          .dispatch = 1};
}

Output take_along(Output x, Output indices, int64_t axis, Origin at) {
  return add_node({.op = "TakeAlong", .inputs = {x, indices}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe
