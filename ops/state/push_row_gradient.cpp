// PushRowGradient: sends rows of dL/d(parameter) to the shards of a parameter, as PushGradient
// sends all of it; completes when they have acknowledged them. The absent rows have no gradient. No
// outputs.
//   indices: [k], i64, unique except for SGD   values: [k, row...], rows of the parameter's dtype
//   and shape; with `indices_per_row` s, k / s rows of `row_size` elements in any shape, each for
//   s consecutive indices (placement/passes/push_rows_once.cpp)
#include "devices/run_context.hpp"
#include "ops/state/parameter_ops.hpp"
#include "ops/state/pushes.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (ctx.dtype(0) != DType::i64 || !is_wide_float(ctx.dtype(1)))
    throw ctx.error("wants indices of i64 and values of f32 or f64, got ", ctx.dtype(0), " and ",
                    ctx.dtype(1));
  const Shape &indices = ctx.input(0), &values = ctx.input(1);
  const int64_t times = ctx.attr<int64_t>("indices_per_row"), row = ctx.attr<int64_t>("row_size");
  if (times < 1 || row < (times > 1 ? 1 : 0))
    throw ctx.error("wants rows of at least one element, each for at least one index, got rows of ",
                    row, " for ", times);
  if (indices.ndim() != 1 ||
      (times == 1 && (values.ndim() < 1 || !may_equal(indices[0], values[0]))))
    throw ctx.error("wants indices [k] and values [k, row...], got ", indices, " and ", values);
  check_optimizer_text(ctx);
  return {};
}

// Holds no thread while it waits: a synchronous round closes when all replicas have pushed.
void start(std::shared_ptr<AsyncContext> ctx) {
  ParameterPort* port = port_of(*ctx);
  if (!port) return;
  const Tensor& indices = ctx->input(0);
  Tensor values = ctx->input(1);
  const int64_t times = ctx->node().attr<int64_t>("indices_per_row");
  if (times > 1) {
    const int64_t row = ctx->node().attr<int64_t>("row_size");
    if (values.size() % row == 0) values = values.reshaped(Shape{values.size() / row, row});
  }
  if (values.ndim() < 1 || indices.size() != values.dim(0) * times)
    return ctx->fail(
        Errc::invalid_argument,
        detail::concat(describe(ctx->node()), ": wants a row for each ",
                       times > 1 ? detail::concat(times, " ") : "", "of ", indices.size(),
                       " indices, got ", values.ndim() > 0 ? values.dim(0) : 0));
  port->push_rows(parameter_of(*ctx), step_of(*ctx), indices, std::move(values), acknowledged(ctx));
}

std::optional<Attrs> repeated(const Node& node, int64_t times, int64_t row_size) {
  if (node.attr<int64_t>("indices_per_row") != 1) return {};
  Attrs attrs = node.attrs;
  attrs["indices_per_row"] = times;
  attrs["row_size"] = row_size;
  return attrs;
}

constexpr OpProperties kProperties = {.parameter = {.kind = ParameterUse::pushes,
                                                    .parameter = parameter_of,
                                                    .optimizer = optimizer_of,
                                                    .repeated = repeated}};

}  // namespace

Op push_row_gradient_op() {
  std::vector<AttrSpec> attrs = push_attrs();
  attrs.push_back({"indices_per_row", AttrKind::integer, int64_t{1}});
  attrs.push_back({"row_size", AttrKind::integer, int64_t{0}});
  return request_op("PushRowGradient", {"indices", "values"}, attrs, infer_shapes, start,
                    kProperties);
}

Output push_row_gradient(Output parameter, RowSparse gradient, const Optimizer& optimizer,
                         const std::vector<int32_t>& control_inputs, Origin at) {
  const auto refuse = [&](const auto&... parts) {
    return refused("PushRowGradient", at, parts...);
  };
  if (!parameter.defined() || !gradient.indices.defined() || !gradient.values.defined())
    throw refuse("its parameter or gradient is an undefined Output; pass the results of ops");
  const Node& node = parameter_node("PushRowGradient", parameter, at);
  const Shape &whole = parameter.shape(), &rows = gradient.values.shape();
  bool fits = rows.ndim() == whole.ndim() && whole.ndim() > 0;
  for (int d = 1; fits && d < rows.ndim(); ++d) fits = may_equal(rows[d], whole[d]);
  if (!fits || gradient.values.dtype() != parameter.dtype())
    throw refuse("the rows are ", TensorType{gradient.values.dtype(), rows}, ", but the parameter ",
                 node.attr<std::string>("parameter"), " is ", node.outputs[0]);
  return add_push("PushRowGradient", node, {gradient.indices, gradient.values}, optimizer,
                  control_inputs, at);
}

}  // namespace troupe
