// SliceGradient: zeros like x with dy in the place that a slice took it from.
//   dy: the slice's shape   x_like: only its shape is used   dx: the shape of x_like.
#include <cstring>

#include "ops/node.hpp"
#include "ops/strided.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
void check_place(const Context& ctx, const Shape& dy, const Shape& x) {
  const auto& begin = ctx.template attr<std::vector<int64_t>>("begin");
  if (dy.ndim() != x.ndim() || static_cast<int>(begin.size()) != x.ndim())
    throw ctx.error("wants as many dimensions for dy, x and begin, got ", dy, ", ", x, " and ",
                    begin.size());
  for (int d = 0; d < x.ndim(); ++d) {
    const int64_t from = begin[static_cast<size_t>(d)];
    if (from < 0 || (x[d] >= 0 && (from > x[d] || dy[d] > x[d] - from)))
      throw ctx.error("dy of shape ", dy, " beginning at ", from, " is not within axis ", d, " of ",
                      x);
  }
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_place(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Writing g for the gradient of dx:  that of dy is the same slice of g. Sizes of dy that are not
// known reach to the end.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Shape& dy = ctx.input(0).shape();
  return {slice(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("begin"),
                std::vector<int64_t>(dy.begin(), dy.end())),
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
  copy_strided(element_size, shape, dy.raw(), dense_strides(shape),
               static_cast<char*>(dx.mutable_raw()) + first * element_size, strides);
}

}  // namespace

Op slice_gradient_op() {
  return {.name = "SliceGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"begin", AttrKind::integers}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output slice_gradient(Output dy, Output x_like, std::vector<int64_t> begin, Origin at) {
  return add_node(
      {.op = "SliceGradient", .inputs = {dy, x_like}, .attrs = {{"begin", std::move(begin)}}}, at);
}

}  // namespace troupe
