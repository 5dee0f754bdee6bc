// read_source() of troupe/source.hpp: a source as a node of a graph.
#include "data/source/spec.hpp"
#include "ops/state/read_source.hpp"
#include "troupe/op.hpp"
#include "troupe/source.hpp"

namespace troupe {

SourceBatch read_source(Graph& graph, const Source& source, const ReadOptions& options, Origin at) {
  const std::string text = source.to_text();
  const SourcePlan plan = plan_source(spec_from_text(text));  // as the process that reads does
  const Registry& registry = *graph.shared_registry();
  const Stage stage = build_stages(
      *plan.stages, [&](std::string_view name) { return registry.find_function(name); });
  if (options.replicas > 1 && stage->batching() == Batching::none)
    throw Error(Errc::invalid_argument, "read_source() made at ", at.file, ":", at.line, ": ",
                options.replicas,
                " replicas share the batches of a source, and this one does not end with batches; "
                "end it with batch() or bucket(), with map() at most behind that");
  SourceNode node{text, {}, options.replicas, plan.epochs >= 0, options.number};
  for (const Field& field : stage->fields()) node.fields.push_back(field.type);
  return {stage->fields(), add_source_node(graph, node, at)};
}

}  // namespace troupe
