// Tile: y = copies of x side by side, repeats[d] of them along dimension d.
//   x: any shape   y[i...] = x[i[d] mod size of x in d, ...]
//
// TileGradient: dx = the sum of the copies in a tile of x_like.
//   dy: the shape of the tile   x_like: only its shape is read   dx: the shape of x_like.
#include "ops/gradients.hpp"
#include "ops/reductions/reduce.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "ops/support/repeats.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {tiled_shape(ctx, ctx.input(0))};
}

// Writing dy for dL/dy:  dx = the sum of all copies in dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {tile_gradient(ctx.output_gradient(0), ctx.input(0),
                        ctx.attr<std::vector<int64_t>>("repeats"))};
}

struct Tiling {
  const Shape& x;
  const std::vector<int64_t>& repeats;
  int last;             // the last dimension that is repeated
  int64_t block_bytes;  // of x from that dimension on

  // Writes dimensions d and up from the current position in x, and advances that position. Returns
  // the end in y.
  char* write(int d, const char*& from, char* y) const {
    char* end = y;
    if (d == last) {
      std::memcpy(y, from, static_cast<size_t>(block_bytes));
      from += block_bytes;
      end += block_bytes;
    } else {
      for (int64_t i = 0; i < x[d]; ++i) end = write(d + 1, from, end);
    }
    const int64_t times = repeats[static_cast<size_t>(d)];
    repeat_block(y, end - y, times);
    return y + (end - y) * times;
  }
};

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape(), y_shape = tiled_shape(ctx, shape);
  if (shape == y_shape) return ctx.set_output(0, x);
  Tensor& y = ctx.output(0, y_shape);
  if (y_shape.size() == 0) return;
  const auto& repeats = ctx.attr<std::vector<int64_t>>("repeats");
  int last = shape.ndim() - 1;
  while (repeats[static_cast<size_t>(last)] == 1) --last;
  const int64_t block = size_between(shape, last, shape.ndim()) * size_of(x.dtype());
  const char* from = static_cast<const char*>(x.raw());
  Tiling{shape, repeats, last, block}.write(0, from, static_cast<char*>(y.mutable_raw()));
}

template <class Context>
void check_tiled(const Context& ctx, const Shape& dy, const Shape& x) {
  const Shape wanted = tiled_shape(ctx, x);
  if (!may_equal(dy, wanted))
    throw ctx.error("wants dy of shape ", wanted, ", a tile of ", x, ", got ", dy);
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  check_tiled(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Writing g for the gradient of dx, the gradient of dy is g tiled.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {tile(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("repeats")), Output{}};
}

// One dimension after the other, outermost first, each by the sum of a fixed tree.
void cpu_gradient(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape x = ctx.input(1).shape();
  check_tiled(ctx, dy.shape(), x);
  if (dy.shape() == x) return ctx.set_output(0, dy);
  Tensor& dx = ctx.output(0, x);
  const auto& repeats = ctx.attr<std::vector<int64_t>>("repeats");
  if (dx.size() == 0) return;
  if (dy.size() == 0) return sum_reduction(dx.dtype()).nothing(dx.mutable_raw(), dx.size());
  int last = x.ndim() - 1;
  while (repeats[static_cast<size_t>(last)] == 1) --last;
  Tensor from = dy;
  Shape left = dy.shape();
  for (int d = 0; d <= last; ++d) {
    ReduceView view;
    view.reduced = repeats[static_cast<size_t>(d)];
    if (view.reduced == 1) continue;
    left.set(d, x[d]);
    view.outer = size_between(left, 0, d);
    view.inner = size_between(left, d, left.ndim());
    view.x = from.raw();
    Tensor to = d == last ? dx : ctx.scratch(dx.dtype(), left);
    reduce_elements(ctx, sum_reduction(dx.dtype()), view, to.mutable_raw());
    from = to;
  }
}

}  // namespace

Op tile_op() {
  return {.name = "Tile",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"repeats", AttrKind::integers}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output tile(Output x, std::vector<int64_t> repeats, Origin at) {
  return add_node({.op = "Tile", .inputs = {x}, .attrs = {{"repeats", std::move(repeats)}}}, at);
}

Op tile_gradient_op() {
  return {.name = "TileGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"repeats", AttrKind::integers}},
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = float_kernels(cpu_gradient, cpu_gradient)};
}

Output tile_gradient(Output dy, Output x_like, std::vector<int64_t> repeats, Origin at) {
  return add_node(
      {.op = "TileGradient", .inputs = {dy, x_like}, .attrs = {{"repeats", std::move(repeats)}}},
      at);
}

}  // namespace troupe
