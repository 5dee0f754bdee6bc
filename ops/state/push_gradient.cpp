// PushGradient: sends dL/d(parameter) to the shards of a parameter; completes when they have
// acknowledged it. Attribute `optimizer` is the rule by which the shards turn gradients into
// updates, as the text from describe() of troupe/optimizer.hpp. No outputs.
//   gradient: the parameter's dtype and shape
#include "devices/async_inputs.hpp"
#include "devices/run_context.hpp"
#include "ops/state/parameter_request.hpp"
#include "troupe/ops.hpp"

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

}  // namespace

Op push_gradient_op() {
  return request_op("PushGradient", {"gradient"}, push_attrs(), infer_shapes, start, kPushes);
}

Output push_gradient(Output parameter, Output gradient, const Optimizer& optimizer,
                     const std::vector<int32_t>& control_inputs, Origin at) {
  const Node& node = trained_node("PushGradient", parameter, gradient, at);
  return add_push("PushGradient", node, {gradient}, optimizer, control_inputs, at);
}

Output push_gradient(Output parameter, Output gradient, Origin at) {
  return push_gradient(parameter, gradient, Optimizer{}, {}, at);
}

}  // namespace troupe
