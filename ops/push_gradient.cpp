// PushGradient: hands dL/d(parameter) to the shards of a parameter and has run when they have
// acknowledged it. Its attributes say how the shards turn gradients into updates; see
// troupe/train.hpp for their formulas. No outputs.
//   gradient: the parameter's dtype and shape
#include <cmath>

#include "ops/node.hpp"
#include "troupe/ops.hpp"
#include "troupe/train.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (!is_floating(ctx.dtype(0)))
    throw ctx.error("wants a gradient of f32 or f64, got ", ctx.dtype(0));
  const auto& optimizer = ctx.attr<std::string>("optimizer");
  if (optimizer != "sgd" && optimizer != "momentum" && optimizer != "adam")
    throw ctx.error("knows no optimizer \"", optimizer, "\"; there are sgd, momentum and adam");
  const auto require = [&](const char* name, double low, double high) {
    const double value = ctx.attr<double>(name);
    if (!std::isfinite(value) || !(value >= low && value < high))
      throw ctx.error("wants ", name, " in [", low, ", ", high, "), got ", value);
  };
  require("learning_rate", 0, HUGE_VAL);
  require("momentum", 0, 1);
  require("beta1", 0, 1);
  require("beta2", 0, 1);
  require("epsilon", 0, HUGE_VAL);
  return {};
}

// Holds no thread while it waits: a synchronous round closes when all slots have pushed.
void start(std::shared_ptr<AsyncContext> ctx) {
  const Node& node = ctx->node();
  ParameterPort* port = ctx->run().parameters;
  if (!port)
    return ctx->fail(Errc::invalid_argument, describe(node) +
                                                 ": this run has no parameter shards; "
                                                 "run the graph through a Session");
  port->push(node.attr<std::string>("parameter"), node.attr<int64_t>("slot"), ctx->run().step,
             ctx->input(0), [ctx](Errc code, std::string text, Tensor) {
               if (code != Errc::ok) return ctx->fail(code, describe(ctx->node()) + ": " + text);
               ctx->done({});
             });
}

}  // namespace

Op push_gradient_op() {
  const Optimizer defaults;
  return {.name = "PushGradient",
          .inputs = {"gradient"},
          .attrs = {{"parameter", AttrKind::text},
                    {"slot", AttrKind::integer, int64_t{0}},
                    {"optimizer", AttrKind::text, defaults.kind},
                    {"learning_rate", AttrKind::real, defaults.learning_rate},
                    {"momentum", AttrKind::real, defaults.momentum},
                    {"beta1", AttrKind::real, defaults.beta1},
                    {"beta2", AttrKind::real, defaults.beta2},
                    {"epsilon", AttrKind::real, defaults.epsilon}},
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no outputs",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .stateful = true};
}

Output push_gradient(Output parameter, Output gradient, const Optimizer& optimizer,
                     const std::vector<int32_t>& control_inputs, Origin at) {
  const auto refuse = [&](const auto&... parts) {
    return Error(Errc::invalid_argument, "PushGradient made at ", at.file, ":", at.line, ": ",
                 detail::concat(parts...));
  };
  if (!parameter.defined() || !gradient.defined())
    throw refuse("its parameter or gradient is an undefined Output; pass the results of ops");
  const Node& node = parameter.graph->node(parameter.node);
  if (node.op->name != "Parameter")
    throw refuse("pushes to what parameter() returned, got the ", describe(node));
  const Shape &wanted = parameter.shape(), &got = gradient.shape();
  if (gradient.dtype() != parameter.dtype() || !got.accepts(wanted))
    throw refuse("the gradient is ", TensorType{gradient.dtype(), got}, ", but the parameter ",
                 node.attr<std::string>("parameter"), " is ", node.outputs[0]);
  return add_node({.op = "PushGradient",
                   .inputs = {gradient},
                   .attrs = {{"parameter", node.attr<std::string>("parameter")},
                             {"slot", node.attr<int64_t>("slot")},
                             {"optimizer", optimizer.kind},
                             {"learning_rate", optimizer.learning_rate},
                             {"momentum", optimizer.momentum},
                             {"beta1", optimizer.beta1},
                             {"beta2", optimizer.beta2},
                             {"epsilon", optimizer.epsilon}},
                   .control_inputs = control_inputs},
                  at);
}

Output push_gradient(Output parameter, Output gradient, Origin at) {
  return push_gradient(parameter, gradient, Optimizer{}, {}, at);
}

}  // namespace troupe
