// WriteParameter: parameter = value, or with `add` parameter += value, in its shards. No outputs;
// completes when the shards have acknowledged it.
//   value: the parameter's dtype and shape
#include "devices/run_context.hpp"
#include "graph/frames.hpp"
#include "ops/state/parameter_write.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (ctx.attr<bool>("add") && ctx.dtype(0) == DType::boolean)
    throw ctx.error("wants numbers to add, got bool");
  return {};
}

void start(std::shared_ptr<AsyncContext> ctx) {
  if (ParameterPort* port = port_of(*ctx))
    port->write(
        parameter_of(*ctx), step_of(*ctx),
        {.kind = ctx->node().attr<bool>("add") ? ParameterWrite::add : ParameterWrite::assign,
         .number = ctx->node().attr<int64_t>("number"),
         .indices = {},
         .values = ctx->input(0)},
        acknowledged(ctx));
}

Output write(const char* called, Output parameter, Output value, bool add,
             const std::vector<int32_t>& control_inputs, Origin at) {
  const Node& node = parameter_node(called, parameter, at);
  if (!value.defined() || value.dtype() != parameter.dtype() ||
      !value.shape().accepts(parameter.shape()))
    throw Error(
        Errc::invalid_argument, called, " at ", at.file, ":", at.line, ": the parameter ",
        node.attr<std::string>("parameter"), " is ", node.outputs[0], ", the value ",
        value.defined() ? detail::concat(value.dtype(), value.shape()) : "an undefined Output");
  return add_write("WriteParameter", node, {value}, add, control_inputs, at);
}

}  // namespace

Op write_parameter_op() {
  return request_op("WriteParameter", {"value"}, write_attrs(), infer_shapes, start, kWrites);
}

Output assign(Output parameter, Output value, const std::vector<int32_t>& control_inputs,
              Origin at) {
  return write("assign", parameter, value, false, control_inputs, at);
}

Output assign_add(Output parameter, Output value, const std::vector<int32_t>& control_inputs,
                  Origin at) {
  return write("assign_add", parameter, value, true, control_inputs, at);
}

Counter counter(Graph& graph, std::string_view name, int64_t first, Origin at) {
  const auto value_of = [&] {  // outside, even if a body or a branch makes the counter
    const auto outside = open_frame(graph, -1);
    return parameter(name, constant(graph, Tensor::scalar<int64_t>(first), "", at), at);
  };
  const Output value = value_of();
  return {value, assign_add(value, constant(graph, Tensor::scalar<int64_t>(1), "", at), {}, at)};
}

}  // namespace troupe
