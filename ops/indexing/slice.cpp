// Slice: y = a box of x; a slice of whole rows shares x's memory.
//   x: any shape   y: x[begin[d], begin[d] + size[d]) in every dimension d; size -1: to the end.
#include "ops/gradients.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "ops/support/strided.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
Shape checked_size(const Context& ctx, const Shape& x) {
  const auto& begin = ctx.template attr<std::vector<int64_t>>("begin");
  const auto& size = ctx.template attr<std::vector<int64_t>>("size");
  const auto ndim = static_cast<size_t>(x.ndim());
  if (begin.size() != ndim || size.size() != ndim)
    throw ctx.error("wants a begin and a size for each of ", ndim, " dimensions, got ",
                    begin.size(), " and ", size.size());
  Shape y = x;
  for (int d = 0; d < x.ndim(); ++d) {
    const int64_t from = begin[static_cast<size_t>(d)], length = size[static_cast<size_t>(d)];
    if (from < 0 || length < -1 ||
        (x[d] >= 0 && (from > x[d] || (length >= 0 && length > x[d] - from))))
      throw ctx.error("begin ", from, " and size ", length, " are not within axis ", d, " of ", x);
    y.set(d, length >= 0 ? length : x[d] < 0 ? -1 : x[d] - from);
  }
  return y;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {checked_size(ctx, ctx.input(0))};
}

// Writing dy for dL/dy:  dx = dy at its position in x, zeros around it.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {slice_gradient(ctx.output_gradient(0), ctx.input(0),
                         ctx.attr<std::vector<int64_t>>("begin"),
                         ctx.attr<std::vector<int64_t>>("size"))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape x_shape = x.shape(), shape = checked_size(ctx, x_shape);
  const auto& begin = ctx.attr<std::vector<int64_t>>("begin");
  if (shape == x_shape) return ctx.set_output(0, x);
  const bool whole_rows = std::equal(shape.begin() + 1, shape.end(), x_shape.begin() + 1);
  if (whole_rows) return ctx.set_output(0, x.rows(begin[0], begin[0] + shape[0]));
  const Strides strides = dense_strides(x_shape);
  int64_t first = 0;
  for (size_t d = 0; d < begin.size(); ++d) first += begin[d] * strides[d];
  Tensor& y = ctx.output(0, shape);
  const int64_t element_size = size_of(x.dtype());
  copy_strided(ctx, element_size, shape, static_cast<const char*>(x.raw()) + first * element_size,
               strides, y.mutable_raw(), dense_strides(shape));
}

constexpr OpProperties kProperties = {
    .arrangement = {.reordered = [](const Node& node, const DimensionOrder& order) {
      return reordered(node, order, {"begin", "size"});
    }}};

}  // namespace

Op slice_op() {
  return {.name = "Slice",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"begin", AttrKind::integers}, {"size", AttrKind::integers}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .properties = &kProperties};
}

Output slice(Output x, std::vector<int64_t> begin, std::vector<int64_t> size, Origin at) {
  return add_node({.op = "Slice",
                   .inputs = {x},
                   .attrs = {{"begin", std::move(begin)}, {"size", std::move(size)}}},
                  at);
}

}  // namespace troupe
