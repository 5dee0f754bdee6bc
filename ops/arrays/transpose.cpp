// Transpose: y = x with its dimensions in another order.
//   x: any shape   y: dimension i is dimension permutation[i] of x; without a permutation, the
//   order is reversed.
#include <algorithm>
#include <numeric>

#include "ops/support/axes.hpp"
#include "ops/support/layout_counts.hpp"
#include "ops/support/node.hpp"
#include "ops/support/strided.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
std::vector<int> order(const Context& ctx, int ndim) {
  const auto& wanted = ctx.template attr<std::vector<int64_t>>("permutation");
  std::vector<int> axes;
  if (wanted.empty()) {
    for (int d = ndim - 1; d >= 0; --d) axes.push_back(d);
    return axes;
  }
  if (static_cast<int>(wanted.size()) != ndim)
    throw ctx.error("the permutation has ", wanted.size(), " axes, the input ", ndim,
                    " dimensions; name each dimension once");
  checked_axes(ctx, wanted, ndim);
  for (int64_t axis : wanted) axes.push_back(checked_axis(ctx, axis, ndim));
  return axes;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& x = ctx.input(0);
  Shape y = x;
  int d = 0;
  for (int axis : order(ctx, x.ndim())) y.set(d++, x[axis]);
  return {y};
}

// Writing dy for dL/dy:  dx = dy transposed back.
std::vector<Output> gradient(const GradientContext& ctx) {
  std::vector<int64_t> back(ctx.attr<std::vector<int64_t>>("permutation").size());
  const int64_t ndim = static_cast<int64_t>(back.size());
  int64_t d = 0;
  for (int64_t axis : ctx.attr<std::vector<int64_t>>("permutation"))
    back[static_cast<size_t>(axis < 0 ? axis + ndim : axis)] = d++;
  return {transpose(ctx.output_gradient(0), back)};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape x_shape = x.shape();
  const Strides strides = dense_strides(x_shape);
  Shape shape = x_shape;
  Strides walked = {};
  int d = 0, last = -1;
  bool in_order = true;
  for (int axis : order(ctx, x.ndim())) {
    shape.set(d, x_shape[axis]);
    walked[static_cast<size_t>(d++)] = strides[static_cast<size_t>(axis)];
    if (x_shape[axis] == 1) continue;
    in_order = in_order && axis > last;
    last = axis;
  }
  if (in_order) return ctx.set_output(0, x.reshaped(shape));  // nothing moves
  count_transpose();
  Tensor& y = ctx.output(0, shape);
  copy_strided(ctx, size_of(x.dtype()), shape, x.raw(), walked, y.mutable_raw(),
               dense_strides(shape));
}

// As order(), of a node that has been checked.
DimensionOrder order_of(const Node& node) {
  const auto ndim = static_cast<int64_t>(node.outputs[0].shape.ndim());
  DimensionOrder order = node.attr<std::vector<int64_t>>("permutation");
  for (int64_t& axis : order) axis = axis < 0 ? axis + ndim : axis;
  if (!order.empty()) return order;
  order.resize(static_cast<size_t>(ndim));
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

bool keeps_order(const DimensionOrder& order) { return std::is_sorted(order.begin(), order.end()); }

DimensionOrder order_of_both(const Node& node, const Node& inner) {
  DimensionOrder order = order_of(node);
  const DimensionOrder first = order_of(inner);
  for (int64_t& axis : order) axis = first[static_cast<size_t>(axis)];
  return order;
}

constexpr OpProperties kProperties = {
    .identities = {
        .passes_on = [](const Node& node) { return keeps_order(order_of(node)); },
        .undoes = [](const Node& node,
                     const Node& inner) { return keeps_order(order_of_both(node, inner)); },
        .composed =
            [](const Node& node, const Node& inner) {
              return std::optional(Attrs{{"permutation", order_of_both(node, inner)}});
            }},
    .arrangement = {.permutation = order_of}};

}  // namespace

Op transpose_op() {
  return {.name = "Transpose",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"permutation", AttrKind::integers, std::vector<int64_t>{}}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .properties = &kProperties};
}

Output transpose(Output x, std::vector<int64_t> permutation, Origin at) {
  return add_node(
      {.op = "Transpose", .inputs = {x}, .attrs = {{"permutation", std::move(permutation)}}}, at);
}

}  // namespace troupe
