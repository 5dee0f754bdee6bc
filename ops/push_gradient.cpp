// PushGradient: hands dL/d(parameter) to the shards of a parameter and has run when they have
// acknowledged it. Attribute `optimizer` says how the shards turn gradients into updates: the text
// that describe() of troupe/train.hpp makes of it. No outputs.
//   gradient: the parameter's dtype and shape
#include "ops/node.hpp"
#include "troupe/ops.hpp"
#include "troupe/train.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (!is_wide_float(ctx.dtype(0)))
    throw ctx.error("wants a gradient of f32 or f64, got ", ctx.dtype(0));
  try {
    optimizer_from_text(ctx.attr<std::string>("optimizer"));
  } catch (const Error& e) {  // which does not know the node
    throw ctx.error(e.what());
  }
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
  port->push(node.attr<std::string>("parameter"),
             {node.attr<int64_t>("slot"), ctx->run().step, ctx->run().first_step}, ctx->input(0),
             [ctx](Errc code, std::string text, Tensor) {
               if (code != Errc::ok) return ctx->fail(code, describe(ctx->node()) + ": " + text);
               ctx->done({});
             });
}

}  // namespace

Op push_gradient_op() {
  return {.name = "PushGradient",
          .inputs = {"gradient"},
          .attrs = {{"parameter", AttrKind::text},
                    {"slot", AttrKind::integer, int64_t{0}},
                    {"optimizer", AttrKind::text, describe(Optimizer{})}},
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
                             {"optimizer", describe(optimizer)}},
                   .control_inputs = control_inputs},
                  at);
}

Output push_gradient(Output parameter, Output gradient, Origin at) {
  return push_gradient(parameter, gradient, Optimizer{}, {}, at);
}

}  // namespace troupe
