// read_source() of troupe/source.hpp: a source as a node of a graph.
#include "data/source/spec.hpp"
#include "ops/state/read_source.hpp"
#include "troupe/op.hpp"
#include "troupe/source.hpp"

namespace troupe {

SourceBatch read_source(Graph& graph, const Source& source, const ReadOptions& options, Origin at) {
  const SourcePlan plan = plan_source(source.spec());
  const Registry& registry = *graph.shared_registry();
  const Stage stage = build_stages(
      *plan.stages, [&](std::string_view name) { return registry.find_function(name); });
  SourceNode node{source.to_text(), {}, options.replicas, options.number};
  for (const Field& field : stage->fields()) node.fields.push_back(field.type);
  return {stage->fields(), add_source_node(graph, node, at)};
}

}  // namespace troupe
