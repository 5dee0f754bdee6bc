// Parameter: y = the values of a trained tensor that this training step of this replica may read,
// pulled from its shards.
//
// A parameter is identified by its name: all nodes with the same name read the same parameter, in
// every scope, on every device and for every replica. `initial` names the output with its first
// values, computed once before the first step; nodes of the same name share the `initial` of the
// first one. A graph has one node for each (name, device, replica).
//
// `touched_rows`: the options of a table whose rows are made on first touch
// (graph/table_options.hpp). Such a parameter has an empty `initial`, and every read of it must
// become a ParameterRows.
//
// ParameterRows: y[i..., :] = row indices[i...] of a Parameter's values, pulled from its shards
// without the other rows. The pass pull_rows (placement/passes/pull_rows.cpp) makes it if a
// parameter is only gathered from.
//   indices: [i...], i32 or i64   y: [i..., row...]
#include <set>

#include "devices/run_context.hpp"
#include "graph/frames.hpp"
#include "graph/table_options.hpp"
#include "ops/state/parameter_ops.hpp"
#include "ops/support/indices.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (ctx.attr<std::string>("parameter").empty()) throw ctx.error("a parameter needs a name");
  const Shape& shape = ctx.attr<Shape>("shape");
  if (!shape.is_known()) throw ctx.error("wants an initial value of known shape, got ", shape);
  if (const auto& table = ctx.attr<std::string>("touched_rows"); !table.empty()) {
    try {
      check_table(ctx.attr<DType>("dtype"), shape, table_options_from_text(table));
    } catch (const Error& e) {  // it does not name the node
      throw ctx.error(e.what());
    }
  }
  return {shape};
}

// The reply that passes on a value of the node's type. `hold`: what the shards do with another one.
ParameterPort::Reply value_of(std::shared_ptr<AsyncContext> ctx, const char* hold) {
  return [ctx = std::move(ctx), hold](Errc code, std::string text, Tensor value) {
    const Node& node = ctx->node();
    if (code != Errc::ok) return ctx->fail(code, describe(node) + ": " + text);
    const TensorType got{value.dtype(), value.shape()}, &wanted = node.outputs[0];
    if (got.dtype != wanted.dtype || !wanted.shape.accepts(got.shape))
      return ctx->fail(Errc::bad_configuration,
                       detail::concat(describe(node), ": the shards ", hold, got, ", not ", wanted,
                                      "; is this another program's checkpoint?"));
    ctx->done({std::move(value)});
  };
}

// Holds no thread while it waits: a pull of a synchronous step is answered when the previous step
// has been applied.
void start(std::shared_ptr<AsyncContext> ctx) {
  ParameterPort* port = port_of(*ctx);
  if (!port) return;
  port->pull(parameter_of(*ctx), step_of(*ctx), value_of(ctx, "hold "));
}

std::string output_name(Output output) { return detail::concat(output.name(), ":", output.index); }

template <class... Parts>
Error bad_parameter(std::string_view name, Origin at, const Parts&... parts) {
  return refused(detail::concat("parameter ", name), at, parts...);
}

// Throws if `initial` is in a body or a branch: no frame runs before the first step.
void require_outside(Output initial, std::string_view name, Origin at) {
  const Graph& graph = *initial.graph;
  const Node& node = graph.node(initial.node);
  if (node.frame < 0) return;
  throw bad_parameter(
      name, at, "its initial value, the ", describe(node), ", is inside the ",
      describe(graph.node(node.frame)),
      ", but it is computed once, before the first step; make the parameter outside, "
      "before that, and read in there what parameter() returned");
}

// Throws if `initial` depends on a value that does not exist before the first step.
void require_independent(Output initial, std::string_view name, Origin at) {
  const Graph& graph = *initial.graph;
  std::set<int32_t> seen = {initial.node};
  std::vector<int32_t> open = {initial.node};
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    if (node.op->name == "Placeholder" || node.op->name == "Parameter")
      throw bad_parameter(
          name, at, "its initial value depends on the ", describe(node),
          ", but it is computed before the first step; use constants and random numbers");
    const auto visit = [&](int32_t id) {
      if (seen.insert(id).second) open.push_back(id);
    };
    for (const Output& input : node.inputs) visit(input.node);
    for (int32_t id : node.control_inputs) visit(id);
  }
}

NodeSpec rows_of(const Node& node, Output indices) {
  Attrs attrs = node.attrs;
  attrs.erase("initial");
  attrs.erase("touched_rows");
  return {.op = "ParameterRows", .inputs = {indices}, .attrs = std::move(attrs)};
}

constexpr OpProperties kProperties = {
    .parameter = {.kind = ParameterUse::reads,
                  .parameter = parameter_of,
                  .initial = [](const Node& node) -> const std::string& {
                    return node.attr<std::string>("initial");
                  },
                  .table = [](const Node& node) -> const std::string& {
                    return node.attr<std::string>("touched_rows");
                  },
                  .rows = rows_of}};

std::vector<DType> infer_row_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  return infer_dtype_attr(ctx);
}

std::vector<Shape> infer_rows(const InferContext& ctx) {
  const Shape &whole = ctx.attr<Shape>("shape"), &indices = ctx.input(0);
  if (!whole.is_known() || whole.ndim() < 1)
    throw ctx.error("wants a parameter of known shape that has rows, got ", whole);
  if (whole.ndim() - 1 + indices.ndim() > Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions: rows of ", whole,
                    " by ", indices);
  return {joined_sizes(indices.dims(), sizes_from(whole, 1))};
}

void start_rows(std::shared_ptr<AsyncContext> ctx) {
  if (ParameterPort* port = port_of(*ctx))
    port->pull_rows(parameter_of(*ctx), step_of(*ctx), as_i64(ctx->input(0)),
                    value_of(ctx, "hold rows of "));
}

constexpr OpProperties kRowProperties = {
    .parameter = {.kind = ParameterUse::reads_rows, .parameter = parameter_of}};

}  // namespace

Op parameter_op() {
  return {.name = "Parameter",
          .outputs = {"y"},
          .attrs = {{"parameter", AttrKind::text},
                    {"dtype", AttrKind::dtype},
                    {"shape", AttrKind::shape},
                    {"initial", AttrKind::text},
                    {"touched_rows", AttrKind::text, std::string()},
                    {"replica", AttrKind::integer, int64_t{0}}},
          .infer_dtypes = infer_dtype_attr,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no inputs",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true,
          .properties = &kProperties};
}

Output parameter(std::string_view name, Output initial, Origin at) {
  if (!initial.defined())
    throw bad_parameter(name, at,
                        "its initial value is an undefined Output; pass the result of an op");
  Graph& graph = *initial.graph;
  const TensorType type{initial.dtype(), initial.shape()};
  const std::string device = graph.device();
  const auto outside = open_frame(graph, -1);  // read once a step, from any branch or loop
  std::string initial_name;
  for (const auto& node : graph.nodes()) {
    if (node->op->name != "Parameter" || node->attr<std::string>("parameter") != name) continue;
    if (!node->attr<std::string>("touched_rows").empty())
      throw bad_parameter(name, at, "it is the table ", describe(*node),
                          ", whose rows are made on first touch; read it by table_parameter() "
                          "and gather()");
    if (node->outputs[0] != type)
      throw bad_parameter(name, at, "it is ", type, " here, but ", node->outputs[0], " as the ",
                          describe(*node),
                          "; give it the same initial shape and dtype, or another name");
    if (node->device == device && node->attr<int64_t>("replica") == graph.replica())
      return {&graph, node->id, 0};
    initial_name = node->attr<std::string>("initial");
  }
  if (initial_name.empty()) {
    require_outside(initial, name, at);
    require_independent(initial, name, at);
    initial_name = output_name(initial);
  }
  return graph.add({.op = "Parameter",
                    .attrs = {{"parameter", std::string(name)},
                              {"dtype", type.dtype},
                              {"shape", type.shape},
                              {"initial", initial_name}},
                    .name = name},
                   at);
}

Output table_parameter(Graph& graph, std::string_view name, const Shape& shape,
                       const TableOptions& options, DType dtype, Origin at) {
  try {
    check_table(dtype, shape, options);
  } catch (const Error& e) {
    throw bad_parameter(name, at, e.what());
  }
  const std::string device = graph.device(), table = describe(options);
  const auto outside = open_frame(graph, -1);  // as parameter()
  const TensorType type{dtype, shape};
  for (const auto& node : graph.nodes()) {
    if (node->op->name != "Parameter" || node->attr<std::string>("parameter") != name) continue;
    const auto& other = node->attr<std::string>("touched_rows");
    if (node->outputs[0] != type || other != table)
      throw bad_parameter(name, at, "it is a table ", type, " (", table, ") here, but ",
                          other.empty() ? "no table, " : "", node->outputs[0],
                          other.empty() ? "" : " (" + other + ")", " as the ", describe(*node),
                          "; declare it the same way, or give it another name");
    if (node->device == device && node->attr<int64_t>("replica") == graph.replica())
      return {&graph, node->id, 0};
  }
  return graph.add({.op = "Parameter",
                    .attrs = {{"parameter", std::string(name)},
                              {"dtype", dtype},
                              {"shape", shape},
                              {"initial", std::string()},
                              {"touched_rows", table}},
                    .name = name},
                   at);
}

Op parameter_rows_op() {
  return {.name = "ParameterRows",
          .inputs = {"indices"},
          .outputs = {"y"},
          .attrs = {{"parameter", AttrKind::text},
                    {"dtype", AttrKind::dtype},
                    {"shape", AttrKind::shape},
                    {"replica", AttrKind::integer, int64_t{0}}},
          .infer_dtypes = infer_row_dtypes,
          .infer_shapes = infer_rows,
          .no_gradient = "it stands in the graphs of calls, whose gradients are there",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start_rows}},
          .dispatch = -1,
          .stateful = true,
          .properties = &kRowProperties};
}

}  // namespace troupe
