// Split: cuts x into equal parts along an axis; along the outermost axis they share x's memory.
//   x: any shape whose size along the axis is a multiple of `parts`.
#include "ops/support/elementwise.hpp"
#include "ops/gradients.hpp"
#include "ops/support/join.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  const int64_t parts = ctx.attr<int64_t>("parts");
  constexpr int64_t kPartsMax = 65536;  // outputs of one node: more is a mistake
  if (parts < 1 || parts > kPartsMax)
    throw ctx.error("splits into 1 to ", kPartsMax, " parts, not ", parts);
  return std::vector<DType>(static_cast<size_t>(parts), ctx.dtype(0));
}

// The shape of each part; -1 for an unknown size.
template <class Context>
Shape part_shape(const Context& ctx, const Shape& x, int axis) {
  const int64_t parts = ctx.template attr<int64_t>("parts");
  Shape part = x;
  if (x[axis] < 0) return part;
  if (x[axis] % parts != 0)
    throw ctx.error("cannot cut ", x, " into ", parts, " equal parts along axis ", axis,
                    "; choose a number that divides ", x[axis]);
  part.set(axis, x[axis] / parts);
  return part;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& x = ctx.input(0);
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), x.ndim());
  return std::vector<Shape>(static_cast<size_t>(ctx.attr<int64_t>("parts")),
                            part_shape(ctx, x, axis));
}

// dx: the gradients of the parts, joined; a part without a gradient counts as zeros.
std::vector<Output> gradient(const GradientContext& ctx) {
  std::vector<Output> parts;
  for (int i = 0; i < ctx.attr<int64_t>("parts"); ++i)
    parts.push_back(output_gradient_or_zeros(ctx, i, ctx.output(i)));
  return {concat(parts, ctx.attr<int64_t>("axis"))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape whole = x.shape();
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), whole.ndim());
  const int parts = static_cast<int>(ctx.attr<int64_t>("parts"));
  const Shape part = part_shape(ctx, whole, axis);
  const Runs runs(whole, part, axis, x.dtype());
  for (int i = 0; i < parts; ++i) {
    if (axis == 0)
      ctx.set_output(i, x.rows(i * part[0], (i + 1) * part[0]));
    else
      runs.copy_out(static_cast<const char*>(x.raw()) + i * runs.part_bytes,
                    static_cast<char*>(ctx.output(i, part).mutable_raw()));
  }
}

}  // namespace

Op split_op() {
  return {.name = "Split",
          .inputs = {"x"},
          .outputs = {"parts..."},
          .attrs = {{"parts", AttrKind::integer}, {"axis", AttrKind::integer}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

std::vector<Output> split(Output x, int64_t parts, int64_t axis, Origin at) {
  return all_outputs(
      add_node({.op = "Split", .inputs = {x}, .attrs = {{"parts", parts}, {"axis", axis}}}, at));
}

}  // namespace troupe
