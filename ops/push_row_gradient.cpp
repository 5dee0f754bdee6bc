// PushRowGradient: hands rows of dL/d(parameter) to the shards of a parameter, as PushGradient does
// with all of it, and has run when they have acknowledged them. The rows that are not there have no
// gradient. No outputs.
//   indices: [k], i64, each once   values: [k, row...], rows of the parameter's dtype and shape
#include "ops/node.hpp"
#include "troupe/ops/row_sparse.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext&) { return {}; }

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (ctx.dtype(0) != DType::i64 || !is_wide_float(ctx.dtype(1)))
    throw ctx.error("wants indices of i64 and values of f32 or f64, got ", ctx.dtype(0), " and ",
                    ctx.dtype(1));
  const Shape &indices = ctx.input(0), &values = ctx.input(1);
  if (indices.ndim() != 1 || values.ndim() < 1 || !may_equal(indices[0], values[0]))
    throw ctx.error("wants indices [k] and values [k, row...], got ", indices, " and ", values);
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
  const Tensor &indices = ctx->input(0), &values = ctx->input(1);
  int64_t row_size = 1;
  for (int d = 1; d < values.ndim(); ++d) row_size *= values.dim(d);
  if (indices.size() != values.dim(0))
    return ctx->fail(Errc::invalid_argument,
                     detail::concat(describe(node), ": wants a row for each of ", indices.size(),
                                    " indices, got ", values.dim(0)));
  port->push(node.attr<std::string>("parameter"),
             {node.attr<int64_t>("slot"), ctx->run().step, ctx->run().first_step},
             pack_rows(row_size, indices.values<int64_t>(), values.raw(), values.dtype()),
             [ctx](Errc code, std::string text, Tensor) {
               if (code != Errc::ok) return ctx->fail(code, describe(ctx->node()) + ": " + text);
               ctx->done({});
             });
}

}  // namespace

Op push_row_gradient_op() {
  return {.name = "PushRowGradient",
          .inputs = {"indices", "values"},
          .attrs = {{"parameter", AttrKind::text},
                    {"slot", AttrKind::integer, int64_t{0}},
                    {"optimizer", AttrKind::text, describe(Optimizer{})}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no outputs",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .stateful = true};
}

Output push_row_gradient(Output parameter, RowSparse gradient, const Optimizer& optimizer,
                         const std::vector<int32_t>& control_inputs, Origin at) {
  const auto refuse = [&](const auto&... parts) {
    return Error(Errc::invalid_argument, "PushRowGradient made at ", at.file, ":", at.line, ": ",
                 detail::concat(parts...));
  };
  if (!parameter.defined() || !gradient.indices.defined() || !gradient.values.defined())
    throw refuse("its parameter or gradient is an undefined Output; pass the results of ops");
  const Node& node = parameter.graph->node(parameter.node);
  if (node.op->name != "Parameter")
    throw refuse("pushes to what parameter() returned, got the ", describe(node));
  const Shape &whole = parameter.shape(), &rows = gradient.values.shape();
  bool fits = rows.ndim() == whole.ndim() && whole.ndim() > 0;
  for (int d = 1; fits && d < rows.ndim(); ++d) fits = may_equal(rows[d], whole[d]);
  if (!fits || gradient.values.dtype() != parameter.dtype())
    throw refuse("the rows are ", TensorType{gradient.values.dtype(), rows}, ", but the parameter ",
                 node.attr<std::string>("parameter"), " is ", node.outputs[0]);
  return add_node({.op = "PushRowGradient",
                   .inputs = {gradient.indices, gradient.values},
                   .attrs = {{"parameter", node.attr<std::string>("parameter")},
                             {"slot", node.attr<int64_t>("slot")},
                             {"optimizer", describe(optimizer)}},
                   .control_inputs = control_inputs},
                  at);
}

}  // namespace troupe
