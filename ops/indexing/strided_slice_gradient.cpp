// StridedSliceGradient: zeros like x, with dy at the sliced elements.
//   attributes: of the slice   dy: the slice's shape   x_like: only its shape is read
//   dx: the shape of x_like.
#include <cstring>

#include "ops/gradients.hpp"
#include "ops/support/node.hpp"
#include "ops/indexing/strided_slice.hpp"

namespace troupe {
namespace {

template <class Context>
SteppedBox checked_box(const Context& ctx, const Shape& dy, const Shape& x) {
  SteppedBox box = stepped_box(ctx, x);
  if (!may_equal(dy, box.y))
    throw ctx.error("wants dy of shape ", box.y, ", which the slice of ", x, " has, got ", dy);
  return box;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  checked_box(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Writing g for the gradient of dx, the gradient of dy is the same slice of g.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {strided_slice(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("begin"),
                        ctx.attr<std::vector<int64_t>>("end"), strided_slice_options(ctx.node())),
          Output{}};
}

void cpu(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape x = ctx.input(1).shape();
  const SteppedBox box = checked_box(ctx, dy.shape(), x);
  Tensor& dx = ctx.output(0, x);
  if (dx.size() == 0) return;
  std::memset(dx.mutable_raw(), 0, static_cast<size_t>(dx.byte_size()));
  const Strides strides = dense_strides(x);
  const int64_t element_size = size_of(dy.dtype());
  copy_strided(ctx, element_size, box.sizes, dy.raw(), dense_strides(box.sizes),
               static_cast<char*>(dx.mutable_raw()) + box.first(strides) * element_size,
               box.walked(strides));
}

}  // namespace

Op strided_slice_gradient_op() {
  return {.name = "StridedSliceGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = strided_slice_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output strided_slice_gradient(Output dy, Output x_like, std::vector<int64_t> begin,
                              std::vector<int64_t> end, StridedSliceOptions options, Origin at) {
  return add_node({.op = "StridedSliceGradient",
                   .inputs = {dy, x_like},
                   .attrs = strided_slice_attrs(std::move(begin), std::move(end), options)},
                  at);
}

}  // namespace troupe
