// WriteParameterRows: row indices[i...] of a parameter = values[i..., :], or with `add` += that, in
// its shards. No outputs; completes when the shards have acknowledged it.
//   indices: [i...], i32 or i64, each in [0, rows)   values: [i..., row...], of its dtype
#include "devices/run_context.hpp"
#include "ops/support/indices.hpp"
#include "ops/state/parameter_write.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  if (ctx.attr<bool>("add") && ctx.dtype(1) == DType::boolean)
    throw ctx.error("wants numbers to add, got bool");
  const Shape &indices = ctx.input(0), &values = ctx.input(1);
  bool fits = values.ndim() >= indices.ndim();
  for (int d = 0; fits && d < indices.ndim(); ++d) fits = may_equal(indices[d], values[d]);
  if (!fits)
    throw ctx.error("wants a row of values for each index, got indices ", indices, " and values ",
                    values);
  return {};
}

void start(std::shared_ptr<AsyncContext> ctx) {
  ParameterPort* port = port_of(*ctx);
  if (!port) return;
  const Tensor &indices = ctx->input(0), &values = ctx->input(1);
  bool fits = values.ndim() >= indices.ndim();
  for (int d = 0; fits && d < indices.ndim(); ++d) fits = indices.dim(d) == values.dim(d);
  if (!fits)
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

Output write(const char* called, Output parameter, Output indices, Output values, bool add,
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

Op write_parameter_rows_op() {
  return request_op("WriteParameterRows", {"indices", "values"}, write_attrs(), infer_shapes, start,
                    kWrites);
}

Output scatter_update(Output parameter, Output indices, Output values,
                      const std::vector<int32_t>& control_inputs, Origin at) {
  return write("scatter_update", parameter, indices, values, false, control_inputs, at);
}

Output scatter_add(Output parameter, Output indices, Output values,
                   const std::vector<int32_t>& control_inputs, Origin at) {
  return write("scatter_add", parameter, indices, values, true, control_inputs, at);
}

}  // namespace troupe
