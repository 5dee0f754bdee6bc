// ReduceGradient: dx = dy broadcast over the elements that a reduction joined; divided by their
// number if `mean`.
//   dy: x_like reduced over the axes   x_like: of any dtype, only its shape is read   dx: the shape
//   of x_like.
#include "graph/op_properties.hpp"
#include "ops/gradients.hpp"
#include "ops/support/narrow.hpp"
#include "ops/reductions/reduce.hpp"

namespace troupe {
namespace {

template <class Context>
void check_reduced(const Context& ctx, const Shape& dy, const Shape& x, uint32_t axes) {
  const Shape wanted = reduced_shape(x, axes, ctx.template attr<bool>("keep_dims"));
  if (!may_equal(dy, wanted)) throw ctx.error("wants dy of shape ", wanted, ", got ", dy);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape& x = ctx.input(1);
  if (ctx.attr<bool>("mean") && !is_floating(ctx.dtype(0)))
    throw ctx.error("broadcasts means of f32 or f64, got ", ctx.dtype(0));
  check_reduced(ctx, ctx.input(0), x, reduced_axes(ctx, x.ndim()));
  return {x};
}

// Writing g for the gradient of dx, the gradient of dy is g reduced over the same axes.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output g = ctx.output_gradient(0);
  const ReduceOptions options = reduce_options(ctx.node());
  return {ctx.attr<bool>("mean") ? reduce_mean(g, options) : reduce_sum(g, options), Output{}};
}

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape x = ctx.input(1).shape();
  const uint32_t axes = reduced_axes(ctx, x.ndim());
  check_reduced(ctx, dy.shape(), x, axes);
  T count = 1;
  for (int d = 0; d < x.ndim(); ++d)
    if (ctx.attr<bool>("mean") && (axes >> d & 1)) count *= static_cast<T>(x[d]);
  const BroadcastWalk walk = walk_to(reduced_shape(x, axes, /*keep_dims=*/true), x);
  const T* from = dy.data<T>();
  T* dx = ctx.output(0, x).template mutable_data<T>();
  if (x.size() == 0) return;
  Tensor shares;
  if (count != 1) {
    shares = ctx.scratch(dtype_of<T>, dy.shape());
    T* share = shares.mutable_data<T>();
    for (int64_t i = 0; i < dy.size(); ++i) share[i] = static_cast<T>(from[i] / count);
    from = share;
  }
  const bool once = walk.strides[0][walk.ndim - 1] == 0;
  const int64_t rest = x.size() / walk.sizes[0], step = walk.strides[0][0];
  in_row_groups(ctx, walk.sizes[0], rest, [=](int64_t first, int64_t groups) {
    BroadcastWalk part = walk;
    part.sizes[0] = groups;
    for_each_row<1>(part, [=](int64_t begin, const int64_t* at, int64_t n) {
      const T* row = from + first * step + at[0];
      T* to = dx + first * rest + begin;
      if (once)
        std::fill_n(to, n, *row);
      else
        std::copy_n(row, n, to);
    });
  });
}

Arrangement::Repeated repeated(const Node& node) {
  const int ndim = node.outputs[0].shape.ndim();
  const auto& axes = node.attr<std::vector<int64_t>>("axes");
  uint32_t all = 0;
  for (const int64_t axis : axes) all |= 1u << (axis < 0 ? axis + ndim : axis);
  return {axes.empty() ? (1u << ndim) - 1 : all, node.attr<bool>("mean")};
}

constexpr OpProperties kProperties = {.arrangement = {.repeated = repeated}};

}  // namespace

Op reduce_gradient_op() {
  std::vector<AttrSpec> attrs = reduce_attrs();
  attrs.push_back({"mean", AttrKind::boolean, false});
  return {.name = "ReduceGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = attrs,
          .infer_dtypes = infer_dtype_of_first,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = with_i8(
              number_kernels(cpu<float>, cpu<double>, cpu<int32_t>, cpu<int64_t>, cpu<uint8_t>)),
          .shape_only = 1u << 1,
          .properties = &kProperties};
}

Output reduce_gradient(Output dy, Output x_like, ReduceOptions options, bool mean, Origin at) {
  Attrs attrs = to_attrs(options);
  attrs.emplace("mean", mean);
  return add_node({.op = "ReduceGradient", .inputs = {dy, x_like}, .attrs = std::move(attrs)}, at);
}

}  // namespace troupe
