// PushGradient: sends dL/d(parameter) to the shards of a parameter; completes when they have
// acknowledged it. Attribute `optimizer` is the rule by which the shards turn gradients into
// updates, as the text from describe() of troupe/optimizer.hpp. No outputs.
//   gradient: the parameter's dtype and shape
//
// PushFiniteGradient: if `finite` is true, a PushGradient. If it is false, a push of no rows
// (troupe/ops/parameters.hpp): it counts as the replica's push of this step, and leaves the
// parameter and the optimizer's accumulators unchanged.
//   gradient: f32 or f64, of the parameter's shape   finite: bool scalar
#include "devices/async_inputs.hpp"
#include "devices/run_context.hpp"
#include "ops/state/parameter_ops.hpp"
#include "ops/state/pushes.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (!is_wide_float(ctx.dtype(0)))
    throw ctx.error("wants a gradient of f32 or f64, got ", ctx.dtype(0));
  check_optimizer_text(ctx);
  return {};
}

// Holds no thread while it waits: a synchronous round closes when all replicas have pushed.
void start(std::shared_ptr<AsyncContext> ctx) {
  if (ParameterPort* port = port_of(*ctx))
    port->push(parameter_of(*ctx), step_of(*ctx), take_input(*ctx, 0), acknowledged(ctx));
}

std::vector<Shape> infer_finite(const InferContext& ctx) {
  if (!is_wide_float(ctx.dtype(0)) || ctx.dtype(1) != DType::boolean || ctx.input(1).ndim() != 0)
    throw ctx.error("wants a gradient of f32 or f64 and a bool scalar, got ",
                    TensorType{ctx.dtype(0), ctx.input(0)}, " and ",
                    TensorType{ctx.dtype(1), ctx.input(1)});
  check_optimizer_text(ctx);
  return {};
}

// Holds no thread while it waits, like PushGradient.
void start_finite(std::shared_ptr<AsyncContext> ctx) {
  ParameterPort* port = port_of(*ctx);
  if (!port) return;
  const Tensor& gradient = ctx->input(0);
  if (ctx->input(1).item<bool>() || gradient.size() == 0)
    return port->push(parameter_of(*ctx), step_of(*ctx), take_input(*ctx, 0), acknowledged(ctx));
  port->push_rows(parameter_of(*ctx), step_of(*ctx), Tensor::empty(DType::i64, {0}),
                  Tensor::empty(gradient.dtype(), {0, 1}), acknowledged(ctx));
}

}  // namespace

Op push_gradient_op() {
  return request_op("PushGradient", {"gradient"}, push_attrs(), infer_shapes, start, kPushes);
}

Output push_gradient(Output parameter, Output gradient, const Optimizer& optimizer,
                     const std::vector<int32_t>& control_inputs, Origin at) {
  const Node& node = trained_node("PushGradient", parameter, gradient, at);
  require_no_table("PushGradient", node, at);
  return add_push("PushGradient", node, {gradient}, optimizer, control_inputs, at);
}

Output push_gradient(Output parameter, Output gradient, Origin at) {
  return push_gradient(parameter, gradient, Optimizer{}, {}, at);
}

Op push_finite_gradient_op() {
  return request_op("PushFiniteGradient", {"gradient", "finite"}, push_attrs(), infer_finite,
                    start_finite, kPushes);
}

Output push_finite_gradient(Output parameter, Output gradient, Output finite,
                            const Optimizer& optimizer, const std::vector<int32_t>& control_inputs,
                            Origin at) {
  const Node& node = trained_node("PushFiniteGradient", parameter, gradient, at);
  require_no_table("PushFiniteGradient", node, at);
  if (!finite.defined())
    throw refused("PushFiniteGradient", at, "`finite` is an undefined Output; pass a bool scalar");
  return add_push("PushFiniteGradient", node, {gradient, finite}, optimizer, control_inputs, at);
}

}  // namespace troupe
