// read_source() of troupe/source.hpp: a source as a node of a graph.
#include "data/source/seen.hpp"
#include "data/source/spec.hpp"
#include "ops/state/read_source.hpp"
#include "troupe/op.hpp"
#include "troupe/source.hpp"

namespace troupe {
namespace {

Fields fields_of(const SourceNode& node) {
  const std::vector<std::string> names = seen_fields(spec_from_text(node.seen)->args);
  Fields out;
  for (size_t i = 0; i < names.size(); ++i) out.push_back({names[i], node.fields[i]});
  return out;
}

}  // namespace

SourceBatch read_source(Graph& graph, const Source& source, const ReadOptions& options, Origin at) {
  const std::string text = source.to_text();
  const SourcePlan plan = plan_source(spec_from_text(text));  // as the process that reads does
  SourceNode node{text, {}, {}, options.replicas, plan.epochs >= 0, options.number};
  if (!find_source_node(graph, node)) {
    const Registry& registry = *graph.shared_registry();
    SeenStages built = see_stages(
        *plan.stages, [&](std::string_view name) { return registry.find_function(name); });
    if (options.replicas > 1 && built.stage->batching() == Batching::none)
      throw Error(
          Errc::invalid_argument, "read_source() made at ", at.file, ":", at.line, ": ",
          options.replicas,
          " replicas share the batches of a source, and this one does not end with batches; "
          "end it with batch() or bucket(), with map() at most behind that");
    node.seen = std::move(built.seen);
    for (const Field& field : built.stage->fields()) node.fields.push_back(field.type);
  }
  return {fields_of(node), add_source_node(graph, node, at)};
}

}  // namespace troupe
