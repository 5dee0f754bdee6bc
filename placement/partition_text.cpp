// The text forms of placement/partition.hpp, for people and tests.
#include "placement/partition.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

std::string reading(const PartNode& node) {
  std::string text;
  for (const PartInput& input : node.inputs)
    text += detail::concat(text.empty() ? "" : ", ", input.node, ":", input.output);
  for (int32_t control : node.controls)
    text += detail::concat(text.empty() ? "" : ", ", "^", control);
  return text.empty() ? text : detail::concat(" (", text, ")");
}

std::string line_of(const Graph& graph, const PartNode& node) {
  const char* const kind = to_string(node.kind);
  switch (node.kind) {
    case PartKind::op:
      return detail::concat(graph.node(node.node).op->name, " ", graph.node(node.node).name,
                            reading(node));
    case PartKind::send:
      return detail::concat(kind, " ", node.edge, reading(node));
    case PartKind::receive:
    case PartKind::ack:
      return detail::concat(kind, " ", node.edge);
    case PartKind::loop:
    case PartKind::enter:
    case PartKind::turn:
      return detail::concat(kind, " ", graph.node(node.node).name, reading(node));
    case PartKind::feed:
      return detail::concat(kind, " ", graph.node(node.node).name, ":", node.output);
    case PartKind::fetch:
      return detail::concat(kind, " ", graph.node(node.node).name, ":", node.output, reading(node));
  }
  return kind;
}

std::string text_of(const Graph& graph, const Partition& partition) {
  std::string text = partition.function < 0
                         ? detail::concat("partition ", partition.device, "\n")
                         : detail::concat("function ", graph.node(partition.function).name, " on ",
                                          partition.device, "\n");
  for (size_t i = 0; i < partition.nodes.size(); ++i)
    text += detail::concat("  ", i, " ", line_of(graph, partition.nodes[i]), "\n");
  for (const Partition& function : partition.functions) text += text_of(graph, function);
  return text;
}

}  // namespace

const char* to_string(PartKind kind) {
  switch (kind) {
    case PartKind::op:
      return "op";
    case PartKind::send:
      return "send";
    case PartKind::receive:
      return "receive";
    case PartKind::feed:
      return "feed";
    case PartKind::fetch:
      return "fetch";
    case PartKind::loop:
      return "loop";
    case PartKind::enter:
      return "enter";
    case PartKind::turn:
      return "turn";
    case PartKind::ack:
      return "ack";
  }
  return "unknown";
}

std::string to_text(const Graph& graph, const std::vector<Partition>& partitions) {
  std::string text;
  std::map<int32_t, const Edge*> edges;
  for (const Partition& partition : partitions) {
    text += text_of(graph, partition);
    for (const Edge& edge : partition.edges) edges[edge.id] = &edge;
  }
  for (const auto& [id, edge] : edges) {
    const std::string what = edge->control
                                 ? "^" + graph.node(edge->node).name
                                 : detail::concat(graph.node(edge->node).name, ":", edge->output);
    text += detail::concat("edge ", id, " ", what, " ", TensorType{edge->dtype, edge->shape}, " ",
                           edge->source, " -> ", edge->destination, "\n");
  }
  return text;
}

}  // namespace troupe
