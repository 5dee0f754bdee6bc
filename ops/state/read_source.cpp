// ReadSource: the tensors of one step of a source, for one replica, read by the process in which
// the node stands. Attributes: `source`, the text of troupe/source.hpp; `seen`, what the program
// saw of its files (data/source/seen.hpp), with which that process compares its own; `types` of the
// fields, as types_to_integers() writes them; `replica` of `replicas`; `finite` if the data end
// after some epochs. Holds no thread while it waits.
//   number: i64[], the step; left out: the training step   fields: of `types`
#include "ops/state/read_source.hpp"

#include "devices/input_port.hpp"
#include "devices/run_context.hpp"
#include "graph/op_properties.hpp"
#include "ops/state/queue.hpp"
#include "ops/support/node.hpp"
#include "ops/support/refused.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr OpProperties kProperties = {
    .input = {.source = [](const Node& node) -> const std::string& {
                return node.attr<std::string>("source");
              },
              .replicas = [](const Node& node) { return node.attr<int64_t>("replicas"); },
              .ends = [](const Node& node) { return node.attr<bool>("finite"); }}};

std::vector<TensorType> types_of(const InferContext& ctx) {
  auto types = types_from_integers(ctx.attr<std::vector<int64_t>>("types"));
  if (!types || types->empty()) throw ctx.error("its attribute types does not describe fields");
  return *types;
}

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  std::vector<DType> out;
  for (const TensorType& type : types_of(ctx)) out.push_back(type.dtype);
  return out;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const int64_t replica = ctx.attr<int64_t>("replica"), replicas = ctx.attr<int64_t>("replicas");
  if (replica < 0 || replica >= replicas)
    throw ctx.error("is of replica ", replica, ", and ", replicas,
                    " replicas read the source; give their number in ReadOptions::replicas");
  if (ctx.input_count() > 0 && (ctx.dtype(0) != DType::i64 || ctx.input(0).ndim() != 0))
    throw ctx.error("wants the number of its step as i64[], got ",
                    TensorType{ctx.dtype(0), ctx.input(0)});
  std::vector<Shape> out;
  for (const TensorType& type : types_of(ctx)) out.push_back(type.shape);
  return out;
}

// Completes a firing with what the source gave, if it is of the types that the graph knows.
void finish(AsyncContext& ctx, Errc code, const std::string& text, std::vector<Tensor> record) {
  const Node& node = ctx.node();
  if (code != Errc::ok) {
    ctx.fail(code, describe(node) + ": " + text);
    return;
  }
  if (record.size() > node.outputs.size()) {
    ctx.fail(Errc::bad_data,
             detail::concat(describe(node), ": the source has ", record.size(),
                            " fields here, and had ", node.outputs.size(),
                            " where the graph was built; do both processes see the same files?"));
    return;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType& wanted = node.outputs[i];
    if (i < record.size() && record[i].dtype() == wanted.dtype &&
        wanted.shape.accepts(record[i].shape()))
      continue;
    ctx.fail(Errc::bad_data,
             detail::concat(describe(node), ": field ", i, " of the source is ",
                            i < record.size() ? detail::concat(record[i].dtype(), record[i].shape())
                                              : std::string("missing"),
                            " here, and was ", wanted,
                            " where the graph was built; do both processes see the same files?"));
    return;
  }
  ctx.done(std::move(record));
}

void start(std::shared_ptr<AsyncContext> ctx) {
  const Node& node = ctx->node();
  InputPort* port = ctx->run().input;
  if (!port) {
    ctx->fail(Errc::invalid_argument,
              describe(node) + ": this run has no input; run the graph through a Session");
    return;
  }
  InputRequest request;
  request.source = {ctx, &node.attr<std::string>("source")};
  request.seen = {ctx, &node.attr<std::string>("seen")};
  request.replica = node.attr<int64_t>("replica");
  request.replicas = node.attr<int64_t>("replicas");
  request.step = node.inputs.empty() ? ctx->run().step : ctx->input(0).item<int64_t>();
  if (request.step < 0) {
    ctx->fail(Errc::invalid_argument,
              describe(node) +
                  (node.inputs.empty()
                       ? ": this run is no training step, so it has no record of the source; feed "
                         "its outputs, or give the step in ReadOptions::number"
                       : ": the number of its step is negative"));
    return;
  }
  port->read(request, [ctx](Errc code, const std::string& text, std::vector<Tensor> record) {
    finish(*ctx, code, text, std::move(record));
  });
}

}  // namespace

std::vector<Output> add_source_node(Graph& graph, const SourceNode& node, Origin at) {
  std::vector<Output> inputs;
  if (node.number.defined()) inputs.push_back(node.number);
  return all_outputs(graph.add({.op = "ReadSource",
                                .inputs = std::move(inputs),
                                .attrs = {{"source", node.source},
                                          {"seen", node.seen},
                                          {"types", types_to_integers(node.fields)},
                                          {"replica", graph.replica()},
                                          {"replicas", node.replicas},
                                          {"finite", node.ends}}},
                               at));
}

bool find_source_node(const Graph& graph, SourceNode& node) {
  for (const auto& known : graph.nodes())
    if (known->op->name == "ReadSource" && known->attr<int64_t>("replicas") == node.replicas &&
        known->attr<std::string>("source") == node.source &&
        !known->attr<std::string>("seen").empty()) {
      node.seen = known->attr<std::string>("seen");
      node.fields = known->outputs;
      return true;
    }
  return false;
}

Op read_source_op() {
  return {.name = "ReadSource",
          .inputs = {"number...?"},
          .outputs = {"fields..."},
          .attrs = {{"source", AttrKind::text},
                    {"seen", AttrKind::text, std::string()},
                    {"types", AttrKind::integers},
                    {"replica", AttrKind::integer, int64_t{0}},
                    {"replicas", AttrKind::integer, int64_t{1}},
                    {"finite", AttrKind::boolean, false}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "records of files do not depend on parameters",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true,
          .precision = Precision::kept,
          .properties = &kProperties};
}

}  // namespace troupe
