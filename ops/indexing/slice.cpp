// Slice: y = a box of x; a slice of whole rows shares x's memory.
//   x: any shape   y: x[begin[d], begin[d] + size[d]) in every dimension d; size -1: to the end.
//
// SliceGradient: zeros like x, with dy at the position of the slice.
//   begin, size: of the slice   dy: the slice's shape   x_like: only its shape is read
//   dx: the shape of x_like.
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

// The box of `shape` in x that begins at `begin`.
StridedWalk walk_from(const std::vector<int64_t>& begin, const Shape& shape, const Shape& x) {
  StridedWalk walk{shape, dense_strides(x)};
  for (size_t d = 0; d < begin.size(); ++d) walk.first += begin[d] * walk.strides[d];
  return walk;
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape x_shape = x.shape(), shape = checked_size(ctx, x_shape);
  const auto& begin = ctx.attr<std::vector<int64_t>>("begin");
  if (shape == x_shape) return ctx.set_output(0, x);
  const bool whole_rows = std::equal(shape.begin() + 1, shape.end(), x_shape.begin() + 1);
  if (whole_rows) return ctx.set_output(0, x.rows(begin[0], begin[0] + shape[0]));
  take_walked(ctx, x, walk_from(begin, shape, x_shape), ctx.output(0, shape));
}

constexpr OpProperties kProperties = {
    .arrangement = {.reordered = [](const Node& node, const DimensionOrder& order) {
      return reordered(node, order, {"begin", "size"});
    }}};

template <class Context>
void check_place(const Context& ctx, const Shape& dy, const Shape& x) {
  const auto& begin = ctx.template attr<std::vector<int64_t>>("begin");
  const auto& size = ctx.template attr<std::vector<int64_t>>("size");
  const auto ndim = static_cast<size_t>(x.ndim());
  if (dy.ndim() != x.ndim() || begin.size() != ndim || size.size() != ndim)
    throw ctx.error("wants as many dimensions for dy, x, begin and size, got ", dy.ndim(), ", ",
                    ndim, ", ", begin.size(), " and ", size.size());
  for (int d = 0; d < x.ndim(); ++d) {
    const int64_t from = begin[static_cast<size_t>(d)], length = size[static_cast<size_t>(d)];
    const bool outside = from < 0 || (x[d] >= 0 && (from > x[d] || dy[d] > x[d] - from));
    const bool known = dy[d] >= 0 && (length >= 0 || x[d] >= 0);
    if (outside || (known && dy[d] != (length >= 0 ? length : x[d] - from)))
      throw ctx.error("dy of shape ", dy, " is not the slice of ", x, " from ", from, " with size ",
                      length, " along axis ", d);
  }
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  check_place(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Writing g for the gradient of dx, the gradient of dy is the same slice of g.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {slice(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("begin"),
                ctx.attr<std::vector<int64_t>>("size")),
          Output{}};
}

void cpu_gradient(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape shape = dy.shape(), x = ctx.input(1).shape();
  check_place(ctx, shape, x);
  const auto& begin = ctx.attr<std::vector<int64_t>>("begin");
  place_walked(ctx, dy, walk_from(begin, shape, x), ctx.output(0, x));
}

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

Op slice_gradient_op() {
  return {.name = "SliceGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"begin", AttrKind::integers}, {"size", AttrKind::integers}},
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu_gradient}}};
}

Output slice_gradient(Output dy, Output x_like, std::vector<int64_t> begin,
                      std::vector<int64_t> size, Origin at) {
  return add_node({.op = "SliceGradient",
                   .inputs = {dy, x_like},
                   .attrs = {{"begin", std::move(begin)}, {"size", std::move(size)}}},
                  at);
}

}  // namespace troupe
