// Fill: y = `value` everywhere, in `shape`.
#include "ops/support/node.hpp"
#include "ops/elementwise/number.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& shape = ctx.attr<Shape>("shape");
  if (!shape.is_known())
    throw ctx.error("wants a shape without -1, got ", shape,
                    "; for the shape of another value use broadcast_like");
  if (!fits(ctx.attr<double>("value"), ctx.attr<DType>("dtype")))
    throw ctx.error("the value ", ctx.attr<double>("value"), " is no ", ctx.attr<DType>("dtype"),
                    " value; choose another dtype, or a number that fits");
  return {shape};
}

void cpu(KernelContext& ctx) {
  Tensor& y = ctx.output();
  set_elements(y.mutable_raw(), y.dtype(), ctx.attr<double>("value"), y.size());
}

}  // namespace

Op fill_op() {
  return {.name = "Fill",
          .outputs = {"y"},
          .attrs = {{"shape", AttrKind::shape},
                    {"value", AttrKind::real},
                    {"dtype", AttrKind::dtype, DType::f32}},
          .infer_dtypes = infer_dtype_attr,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no inputs",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1};
}

Output fill(Graph& graph, Shape shape, double value, DType dtype, std::string_view name,
            Origin at) {
  return graph.add(
      {.op = "Fill", .attrs = {{"shape", shape}, {"value", value}, {"dtype", dtype}}, .name = name},
      at);
}

}  // namespace troupe
