// Reshape: the elements of x, in row-major order, under another shape. No copy.
//   x: any shape   y: `shape`, in which one size may be -1: the size that gives the right number
//   of elements.
//
// ReshapeLike: the elements of x, in row-major order, under the shape of another value. No copy.
//   x, like: the same number of elements   y: the shape of `like`, of which nothing else is read.
//
// ExpandDims: x with one more dimension, of size 1. No copy.
//   axis: the position of that dimension in y; a negative axis counts from y's end.
//
// Squeeze: x without some of its dimensions of size 1. No copy.
//   axes: the dimensions to drop, negative ones counted from the end; {}: all of size 1, and then
//   the sizes of x must be known while building.
#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// `shape` with -1 replaced if the shape of x is known.
struct Resolved {
  template <class Context>
  static Shape of(const Context& ctx, const Shape& x) {
    Shape shape = ctx.template attr<Shape>("shape");
    int open = -1;
    for (int d = 0; d < shape.ndim(); ++d) {
      if (shape[d] != -1) continue;
      if (open >= 0) throw ctx.error("only one size may be -1, got ", shape);
      open = d;
    }
    if (!x.is_known()) return shape;
    Shape rest = shape;
    if (open >= 0) rest.set(open, 1);
    const int64_t size = x.size(), known = rest.size();
    if (open < 0 ? known != size : known == 0 || size % known != 0)
      throw ctx.error("the ", size, " elements of ", x, " do not fit into ", shape);
    if (open >= 0) shape.set(open, size / known);
    return shape;
  }
};

// Writing dy for dL/dy:  dx = dy in x's shape.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {x.shape().is_known() ? reshape(dy, x.shape()) : reshape_like(dy, x)};
}

// A shape that is not known is checked when the step runs, and might be refused.
bool is_known(const Node& node) { return node.inputs[0].shape().is_known(); }

constexpr OpProperties kProperties = {
    .identities = {.passes_on = is_known,
                   .undoes = [](const Node&, const Node& inner) { return is_known(inner); },
                   // elements keep their order, whatever the shape between
                   .composed =
                       [](const Node& node, const Node& inner) {
                         return is_known(inner) ? std::optional(node.attrs) : std::nullopt;
                       }}};

template <class Context>
void check_sizes(const Context& ctx, const Shape& x, const Shape& like) {
  if (x.size() != like.size())
    throw ctx.error("the ", x.size(), " elements of ", x, " do not fit into ", like);
}

std::vector<Shape> infer_like(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &like = ctx.input(1);
  if (x.is_known() && like.is_known()) check_sizes(ctx, x, like);
  return {like};
}

// Writing dy for dL/dy:  dx = dy in x's shape.
std::vector<Output> gradient_like(const GradientContext& ctx) {
  return {reshape_like(ctx.output_gradient(0), ctx.input(0)), Output{}};
}

void cpu_like(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape like = ctx.input(1).shape();
  check_sizes(ctx, x.shape(), like);
  ctx.set_output(0, x.reshaped(like));
}

struct Expanded {
  template <class Context>
  static Shape of(const Context& ctx, const Shape& x) {
    if (x.ndim() >= Shape::kNdimMax)
      throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions: ", x,
                      " has that many; reshape it first");
    const int axis = checked_axis(ctx, ctx.template attr<int64_t>("axis"), x.ndim() + 1);
    std::vector<int64_t> sizes(x.begin(), x.end());
    sizes.insert(sizes.begin() + axis, 1);
    return Shape(sizes);
  }
};

template <class Context>
uint32_t left_out(const Context& ctx, const Shape& x) {
  const auto& axes = ctx.template attr<std::vector<int64_t>>("axes");
  if (!axes.empty()) return checked_axes(ctx, axes, x.ndim());
  if (!x.is_known())
    throw ctx.error("cannot see which sizes of ", x, " are 1; name the axes to leave out");
  uint32_t set = 0;
  for (int d = 0; d < x.ndim(); ++d) set |= uint32_t{x[d] == 1} << d;
  return set;
}

struct Squeezed {
  template <class Context>
  static Shape of(const Context& ctx, const Shape& x) {
    const uint32_t axes = left_out(ctx, x);
    std::vector<int64_t> sizes;
    for (int d = 0; d < x.ndim(); ++d) {
      if (!(axes >> d & 1))
        sizes.push_back(x[d]);
      else if (!may_equal(x[d], 1))
        throw ctx.error("cannot leave out axis ", d, " of ", x, ", which has size ", x[d],
                        "; name axes of size 1");
    }
    return Shape(sizes);
  }
};

// x in the shape that Rule::of(ctx, shape of x) gives.
template <class Rule>
Op view_op(const char* name, AttrSpec attr, const OpProperties* properties = nullptr) {
  return {.name = name,
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {std::move(attr)},
          .infer_shapes =
              [](const InferContext& ctx) { return std::vector{Rule::of(ctx, ctx.input(0))}; },
          .gradient = gradient,
          .kernels = {{.run =
                           [](KernelContext& ctx) {
                             const Tensor& x = ctx.input(0);
                             ctx.set_output(0, x.reshaped(Rule::of(ctx, x.shape())));
                           }}},
          .aliases = true,
          .properties = properties};
}

}  // namespace

Op reshape_op() { return view_op<Resolved>("Reshape", {"shape", AttrKind::shape}, &kProperties); }
Output reshape(Output x, Shape shape, Origin at) {
  return add_node({.op = "Reshape", .inputs = {x}, .attrs = {{"shape", shape}}}, at);
}

Op reshape_like_op() {
  return {.name = "ReshapeLike",
          .inputs = {"x", "like"},
          .outputs = {"y"},
          .infer_shapes = infer_like,
          .gradient = gradient_like,
          .kernels = {{DeviceKind::cpu, DType::none, cpu_like}},
          .aliases = true};
}

Output reshape_like(Output x, Output like, Origin at) {
  return add_node({.op = "ReshapeLike", .inputs = {x, like}}, at);
}

Op expand_dims_op() { return view_op<Expanded>("ExpandDims", {"axis", AttrKind::integer}); }
Output expand_dims(Output x, int64_t axis, Origin at) {
  return add_node({.op = "ExpandDims", .inputs = {x}, .attrs = {{"axis", axis}}}, at);
}

Op squeeze_op() {
  return view_op<Squeezed>("Squeeze", {"axes", AttrKind::integers, std::vector<int64_t>{}});
}
Output squeeze(Output x, std::vector<int64_t> axes, Origin at) {
  return add_node({.op = "Squeeze", .inputs = {x}, .attrs = {{"axes", std::move(axes)}}}, at);
}

}  // namespace troupe
