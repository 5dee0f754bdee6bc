// ParameterRows: y[i..., :] = row indices[i...] of a Parameter's values, pulled from its shards
// without the other rows. The pass pull_rows (placement/passes/pull_rows.cpp) makes it if a
// parameter is only gathered from.
//   indices: [i...], i32 or i64   y: [i..., row...]
#include "devices/run_context.hpp"
#include "ops/support/indices.hpp"
#include "ops/state/parameter_request.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  return infer_dtype_attr(ctx);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape &whole = ctx.attr<Shape>("shape"), &indices = ctx.input(0);
  if (!whole.is_known() || whole.ndim() < 1)
    throw ctx.error("wants a parameter of known shape that has rows, got ", whole);
  if (whole.ndim() - 1 + indices.ndim() > Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions: rows of ", whole,
                    " by ", indices);
  return {joined_sizes(indices.dims(), sizes_from(whole, 1))};
}

void start(std::shared_ptr<AsyncContext> ctx) {
  if (ParameterPort* port = port_of(*ctx))
    port->pull_rows(
        parameter_of(*ctx), step_of(*ctx), as_i64(ctx->input(0)),
        [ctx](Errc code, std::string text, Tensor value) {
          const Node& node = ctx->node();
          if (code != Errc::ok) return ctx->fail(code, describe(node) + ": " + text);
          if (value.dtype() != node.outputs[0].dtype ||
              !node.outputs[0].shape.accepts(value.shape()))
            return ctx->fail(
                Errc::bad_configuration,
                detail::concat(describe(node), ": the shards hold rows of ",
                               TensorType{value.dtype(), value.shape()}, ", not ", node.outputs[0],
                               "; is this another program's checkpoint?"));
          ctx->done({std::move(value)});
        });
}

constexpr OpProperties kProperties = {
    .parameter = {.kind = ParameterUse::reads_rows, .parameter = parameter_of}};

}  // namespace

Op parameter_rows_op() {
  return {.name = "ParameterRows",
          .inputs = {"indices"},
          .outputs = {"y"},
          .attrs = {{"parameter", AttrKind::text},
                    {"dtype", AttrKind::dtype},
                    {"shape", AttrKind::shape},
                    {"replica", AttrKind::integer, int64_t{0}}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "it stands in the graphs of calls, whose gradients are there",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true,
          .properties = &kProperties};
}

}  // namespace troupe
