// SliceGradient: zeros like x, with dy at the position of the slice.
//   begin, size: of the slice   dy: the slice's shape   x_like: only its shape is read
//   dx: the shape of x_like.
#include <cstring>

#include "ops/gradients.hpp"
#include "ops/support/node.hpp"
#include "ops/support/strided.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

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

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_place(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Writing g for the gradient of dx, the gradient of dy is the same slice of g.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {slice(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("begin"),
                ctx.attr<std::vector<int64_t>>("size")),
          Output{}};
}

void cpu(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape shape = dy.shape(), x = ctx.input(1).shape();
  check_place(ctx, shape, x);
  const auto& begin = ctx.attr<std::vector<int64_t>>("begin");
  const Strides strides = dense_strides(x);
  int64_t first = 0;
  for (size_t d = 0; d < begin.size(); ++d) first += begin[d] * strides[d];
  Tensor& dx = ctx.output(0, x);
  if (dx.size() == 0) return;
  std::memset(dx.mutable_raw(), 0, static_cast<size_t>(dx.byte_size()));
  const int64_t element_size = size_of(dy.dtype());
  copy_strided(ctx, element_size, shape, dy.raw(), dense_strides(shape),
               static_cast<char*>(dx.mutable_raw()) + first * element_size, strides);
}

}  // namespace

Op slice_gradient_op() {
  return {.name = "SliceGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"begin", AttrKind::integers}, {"size", AttrKind::integers}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output slice_gradient(Output dy, Output x_like, std::vector<int64_t> begin,
                      std::vector<int64_t> size, Origin at) {
  return add_node({.op = "SliceGradient",
                   .inputs = {dy, x_like},
                   .attrs = {{"begin", std::move(begin)}, {"size", std::move(size)}}},
                  at);
}

}  // namespace troupe
