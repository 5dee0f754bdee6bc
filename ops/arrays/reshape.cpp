// Reshape: the elements of x, in row-major order, under another shape. No copy.
//   x: any shape   y: `shape`, in which one size may be -1: the size that gives the right number
//   of elements.
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// `shape` with -1 replaced if the shape of x is known.
template <class Context>
Shape resolved(const Context& ctx, const Shape& x) {
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

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {resolved(ctx, ctx.input(0))}; }

// Writing dy for dL/dy:  dx = dy in x's shape.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {x.shape().is_known() ? reshape(dy, x.shape()) : reshape_like(dy, x)};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  ctx.set_output(0, x.reshaped(resolved(ctx, x.shape())));
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

}  // namespace

Op reshape_op() {
  return {.name = "Reshape",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"shape", AttrKind::shape}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .aliases = true,
          .properties = &kProperties};
}

Output reshape(Output x, Shape shape, Origin at) {
  return add_node({.op = "Reshape", .inputs = {x}, .attrs = {{"shape", shape}}}, at);
}

}  // namespace troupe
