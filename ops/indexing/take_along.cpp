// TakeAlong: y = x[..., indices[..., j, ...], ...], elements chosen along one axis (NumPy's
// take_along_axis).
//   x: [..., n, ...] of any dtype   indices, y: [..., m, ...], i32 or i64, each in [0, n)
//
// TakeAlongGradient: dx = zeros, then dx[..., indices[..., j, ...], ...] += dy[..., j, ...], in the
// order of the indices.
//   dy, indices: [..., m, ...], indices i32 or i64, each in [0, n)   x_like, dx: [..., n, ...]
// Only the shape of x_like is read.
#include <algorithm>

#include "ops/gradients.hpp"
#include "ops/support/indices.hpp"
#include "ops/support/order.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// Returns the axis. Throws: Error from ctx unless `x` and `indices` have the same sizes in all
// other dimensions. Context: InferContext or KernelContext.
template <class Context>
int checked_along(const Context& ctx, const Shape& x, const Shape& indices) {
  const int axis = checked_axis(ctx, ctx.template attr<int64_t>("axis"), x.ndim());
  bool fits = x.ndim() == indices.ndim();
  for (int d = 0; fits && d < x.ndim(); ++d) fits = d == axis || may_equal(x[d], indices[d]);
  if (!fits)
    throw ctx.error("wants indices with the sizes of ", x, " but along axis ", axis, ", got ",
                    indices);
  return axis;
}

// Calls f(number of an element of `indices`, number of the element of x at that index). Requires:
// the indices are checked and not empty.
template <class I, class F>
void for_each_along(const Shape& x, const Shape& indices, int axis, const I* index, F f) {
  const Lines lines(indices, axis);
  const int64_t n = x[axis];
  int64_t to = 0;
  for (int64_t o = 0; o < lines.outer; ++o)
    for (int64_t j = 0; j < lines.n; ++j)
      for (int64_t i = 0; i < lines.inner; ++i, ++to)
        f(to, (o * n + static_cast<int64_t>(index[to])) * lines.inner + i);
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

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dy = ctx.input(0), &indices = ctx.input(1), &x = ctx.input(2);
  if (!may_equal(dy, indices))
    throw ctx.error("wants a dy for each index, got ", dy, " for ", indices);
  checked_along(ctx, x, indices);
  return {x};
}

// Linear in dy. Writing g for dL/d(dx), the gradient of dy is g taken along the same indices.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {take_along(ctx.output_gradient(0), ctx.input(1), ctx.attr<int64_t>("axis")), Output{},
          Output{}};
}

template <class T>
void cpu_gradient(KernelContext& ctx) {
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

Op take_along_op() {
  return {.name = "TakeAlong",
          .inputs = {"x", "indices"},
          .outputs = {"y"},
          .attrs = {{"axis", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_dtype_with_indices,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = index_kernels(cpu<int32_t>, cpu<int64_t>),
          .dispatch = 1};
}

Output take_along(Output x, Output indices, int64_t axis, Origin at) {
  return add_node({.op = "TakeAlong", .inputs = {x, indices}, .attrs = {{"axis", axis}}}, at);
}

Op take_along_gradient_op() {
  return {.name = "TakeAlongGradient",
          .inputs = {"dy", "indices", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"axis", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_dtype_around_indices,
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = float_kernels(cpu_gradient<float>, cpu_gradient<double>)};
}

Output take_along_gradient(Output dy, Output indices, Output x_like, int64_t axis, Origin at) {
  return add_node(
      {.op = "TakeAlongGradient", .inputs = {dy, indices, x_like}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe
