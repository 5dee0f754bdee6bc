// PushFiniteGradient: PushGradient where `finite` is true; where it is false, a push of no rows
// (troupe/ops/row_sparse.hpp): it counts as this step's of its slot, and leaves the parameter and
// the optimizer's slots as they are.
//   gradient: f32 or f64, of the parameter's shape   finite: bool scalar
#include "ops/node.hpp"
#include "troupe/ops/row_sparse.hpp"
#include "troupe/training/mixed_precision.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext&) { return {}; }

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (!is_wide_float(ctx.dtype(0)) || ctx.dtype(1) != DType::boolean || ctx.input(1).ndim() != 0)
    throw ctx.error("wants a gradient of f32 or f64 and a bool scalar, got ",
                    TensorType{ctx.dtype(0), ctx.input(0)}, " and ",
                    TensorType{ctx.dtype(1), ctx.input(1)});
  try {
    optimizer_from_text(ctx.attr<std::string>("optimizer"));
  } catch (const Error& e) {  // which does not know the node
    throw ctx.error(e.what());
  }
  return {};
}

// Holds no thread while it waits, as PushGradient.
void start(std::shared_ptr<AsyncContext> ctx) {
  const Node& node = ctx->node();
  ParameterPort* port = ctx->run().parameters;
  if (!port)
    return ctx->fail(Errc::invalid_argument, describe(node) +
                                                 ": this run has no parameter shards; "
                                                 "run the graph through a Session");
  const Tensor& gradient = ctx->input(0);
  const bool push = ctx->input(1).item<bool>() || gradient.size() == 0;
  port->push(node.attr<std::string>("parameter"),
             {node.attr<int64_t>("slot"), ctx->run().step, ctx->run().first_step},
             push ? gradient : pack_rows(1, {}, nullptr, gradient.dtype()),
             [ctx](Errc code, std::string text, Tensor) {
               if (code != Errc::ok) return ctx->fail(code, describe(ctx->node()) + ": " + text);
               ctx->done({});
             });
}

}  // namespace

Op push_finite_gradient_op() {
  return {.name = "PushFiniteGradient",
          .inputs = {"gradient", "finite"},
          .attrs = {{"parameter", AttrKind::text},
                    {"slot", AttrKind::integer, int64_t{0}},
                    {"optimizer", AttrKind::text, describe(Optimizer{})}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no outputs",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .stateful = true};
}

Output push_finite_gradient(Output parameter, Output gradient, Output finite,
                            const Optimizer& optimizer, const std::vector<int32_t>& control_inputs,
                            Origin at) {
  const Node& node = parameter.graph->node(parameter.node);
  TROUPE_CHECK(node.op->name == "Parameter" && gradient.dtype() == parameter.dtype() &&
                   gradient.shape().accepts(parameter.shape()),
               "a gradient ", gradient.name(), " is pushed to the ", describe(node));
  return add_node({.op = "PushFiniteGradient",
                   .inputs = {gradient, finite},
                   .attrs = {{"parameter", node.attr<std::string>("parameter")},
                             {"slot", node.attr<int64_t>("slot")},
                             {"optimizer", describe(optimizer)}},
                   .control_inputs = control_inputs},
                  at);
}

}  // namespace troupe
