// ShapeOf: y = the sizes of x's dimensions.
//   x: any shape; only the shape is read   y: [number of dimensions of x], i64.
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {Shape{ctx.input(0).ndim()}}; }

void cpu(KernelContext& ctx) {
  const Shape x = ctx.input(0).shape();
  std::copy(x.begin(), x.end(), ctx.output().mutable_data<int64_t>());
}

}  // namespace

Op shape_of_op() {
  return {.name = "ShapeOf",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_dtypes = infer_i64,
          .infer_shapes = infer_shapes,
          .no_gradient = "sizes do not depend on values",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .precision = Precision::kept};
}

Output shape_of(Output x, Origin at) { return add_node({.op = "ShapeOf", .inputs = {x}}, at); }

}  // namespace troupe
