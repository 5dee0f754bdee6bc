// WriteParameter: parameter = value, or with `add` parameter += value, in its shards. No outputs;
// completes when the shards have acknowledged it.
//   value: the parameter's dtype and shape
//
// WriteParameterRows: row indices[i...] of a parameter = values[i..., :], or with `add` += that, in
// its shards. No outputs; completes when the shards have acknowledged it.
//   indices: [i...], i32 or i64, each in [0, rows)   values: [i..., row...], of its dtype
#include "devices/run_context.hpp"
#include "graph/frames.hpp"
#include "ops/state/parameter_write.hpp"
#include "ops/support/indices.hpp"
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

std::vector<Shape> infer_rows(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  if (ctx.attr<bool>("add") && ctx.dtype(1) == DType::boolean)
    throw ctx.error("wants numbers to add, got bool");
  const Shape &indices = ctx.input(0), &values = ctx.input(1);
  if (!begins_with(values, indices))
    throw ctx.error("wants a row of values for each index, got indices ", indices, " and values ",
                    values);
  return {};
}

void start_rows(std::shared_ptr<AsyncContext> ctx) {
  ParameterPort* port = port_of(*ctx);
  if (!port) return;
  const Tensor &indices = ctx->input(0), &values = ctx->input(1);
  if (!begins_with(values.shape(), indices.shape()))
    return ctx->fail(Errc::invalid_argument,
                     detail::concat(describe(ctx->node()), ": wants a row for each of the indices ",
                                    indices.shape(), ", got ", values.shape()));
  port->write(parameter_of(*ctx), step_of(*ctx),
              {.kind = ctx->node().attr<bool>("add") ? ParameterWrite::add_rows
                                                     : ParameterWrite::assign_rows,
               .number = ctx->node().attr<int64_t>("number"),
               .indices = as_i64(indices),
               .values = values},
              acknowledged(ctx));
}

Output write_rows(const char* called, Output parameter, Output indices, Output values, bool add,
                  const std::vector<int32_t>& control_inputs, Origin at) {
  const Node& node = parameter_node(called, parameter, at);
  const Shape& whole = node.outputs[0].shape;
  bool fits = indices.defined() && values.defined() && whole.ndim() > 0 &&
              values.dtype() == parameter.dtype() &&
              values.shape().ndim() == indices.shape().ndim() + whole.ndim() - 1;
  for (int d = 1; fits && d < whole.ndim(); ++d)
    fits = may_equal(values.shape()[indices.shape().ndim() + d - 1], whole[d]);
  if (!fits)
    throw Error(
        Errc::invalid_argument, called, " at ", at.file, ":", at.line,
        ": wants rows of the parameter ", node.attr<std::string>("parameter"), ", which is ",
        node.outputs[0], ", one for each index, got ",
        values.defined() ? detail::concat(values.dtype(), values.shape()) : "an undefined Output");
  return add_write("WriteParameterRows", node, {indices, values}, add, control_inputs, at);
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

Op write_parameter_rows_op() {
  return request_op("WriteParameterRows", {"indices", "values"}, write_attrs(), infer_rows,
                    start_rows, kWrites);
}

Output scatter_update(Output parameter, Output indices, Output values,
                      const std::vector<int32_t>& control_inputs, Origin at) {
  return write_rows("scatter_update", parameter, indices, values, false, control_inputs, at);
}

Output scatter_add(Output parameter, Output indices, Output values,
                   const std::vector<int32_t>& control_inputs, Origin at) {
  return write_rows("scatter_add", parameter, indices, values, true, control_inputs, at);
}

}  // namespace troupe
