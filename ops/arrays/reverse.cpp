// Reverse: y = x with the order of its elements reversed along some axes.
//   axes: {} means all; negative axes count from the end.
#include "ops/support/axes.hpp"
#include "ops/elementwise/composition.hpp"
#include "ops/support/node.hpp"
#include "ops/support/strided.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
uint32_t reversed_axes(const Context& ctx, int ndim) {
  return checked_axes(ctx, ctx.template attr<std::vector<int64_t>>("axes"), ndim);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  reversed_axes(ctx, ctx.input(0).ndim());
  return {ctx.input(0)};
}

// Writing dy for dL/dy:  dx = dy reversed again.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {reverse(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("axes"))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape();
  const uint32_t axes = reversed_axes(ctx, shape.ndim());
  StridedWalk walk{shape, dense_strides(shape)};
  for (int d = 0; d < shape.ndim(); ++d) {
    if (!(axes >> d & 1)) continue;
    const auto i = static_cast<size_t>(d);
    walk.first += (shape[d] - 1) * walk.strides[i];
    walk.strides[i] = -walk.strides[i];
  }
  take_walked(ctx, x, walk, ctx.output(0, shape));
}

}  // namespace

Op reverse_op() {
  return {.name = "Reverse",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"axes", AttrKind::integers, std::vector<int64_t>{}}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output reverse(Output x, std::vector<int64_t> axes, Origin at) {
  return add_node({.op = "Reverse", .inputs = {x}, .attrs = {{"axes", std::move(axes)}}}, at);
}

Output flip_left_right(Output images, Origin at) {
  if (images.defined() && images.shape().ndim() < 3)
    throw refused("flip_left_right", at, "wants images [..., height, width, channels], got ",
                  images.shape());
  return reverse(images, {-2}, at);
}

}  // namespace troupe
