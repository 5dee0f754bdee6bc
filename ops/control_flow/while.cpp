// While: a loop as seen from outside. Its inputs are the loop's n variables (LoopVariable), then
// the body's next value of each; its outputs are the variables after the last iteration and the
// number of iterations, an i64 scalar.
#include "graph/op.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  if (ctx.input_count() % 2 != 0)
    throw ctx.error("wants a next value for each variable, got ", ctx.input_count(), " inputs");
  std::vector<DType> dtypes;
  for (int i = 0; i < ctx.input_count() / 2; ++i) dtypes.push_back(ctx.dtype(i));
  dtypes.push_back(DType::i64);
  return dtypes;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const int variables = ctx.input_count() / 2;
  std::vector<Shape> shapes;
  for (int i = 0; i < variables; ++i) {
    const TensorType now{ctx.dtype(i), ctx.input(i)},
        next{ctx.dtype(variables + i), ctx.input(variables + i)};
    if (now.dtype != next.dtype || !may_equal(now.shape, next.shape))
      throw ctx.error("variable ", i, " is ", now, ", but the body makes ", next,
                      " of it; cast or reshape it, or say with WhileOptions::shapes which sizes "
                      "change");
    shapes.push_back(now.shape);
  }
  shapes.push_back(Shape{});
  return shapes;
}

// The engine runs the loop. A plain evaluation cannot, and returns the variables unchanged.
void cpu(KernelContext& ctx) {
  const int variables = ctx.input_count() / 2;
  for (int i = 0; i < variables; ++i) ctx.set_output(i, ctx.input(i));
  ctx.set_output(variables, Tensor::scalar<int64_t>(0));
}

}  // namespace

Op while_op() {
  return {.name = "While",
          .inputs = {"variables_and_next..."},
          .outputs = {"y..."},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "gradients() makes a loop that goes back",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .control = ControlKind::repeat,
          .precision = Precision::kept};
}

}  // namespace troupe
