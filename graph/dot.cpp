// to_dot(): Graphviz (https://graphviz.org/doc/info/lang.html) with one cluster and colour per
// device, data edges labelled with their types, control edges dashed.
#include "graph/dot.hpp"

#include <set>

#include "troupe/op.hpp"

namespace troupe {
namespace {

std::string dot_text(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string node_line(const Node& node, const std::string& note) {
  // \n between the lines is Graphviz's own escape, so it is not escaped again.
  std::string label = dot_text(node.name);
  label.insert(label.size() - 1, "\\n" + node.op->name + (note.empty() ? "" : "\\n" + note));
  return detail::concat("n", node.id, " [label=", label, "];\n");
}

}  // namespace

std::string to_dot(const Graph& graph, const std::map<int32_t, std::string>& device_of) {
  return to_dot(graph, device_of, {});
}

std::string to_dot(const Graph& graph, const std::map<int32_t, std::string>& device_of,
                   const std::map<int32_t, std::string>& notes) {
  // Light colours, so that black text stays readable; colours repeat if there are more devices.
  static constexpr const char* colours[] = {"#dbeafe", "#dcfce7", "#fef9c3", "#fee2e2",
                                            "#f3e8ff", "#ffedd5", "#e0f2fe", "#fce7f3"};
  std::map<std::string, std::vector<const Node*>> by_device;
  for (const auto& node : graph.nodes()) {
    const auto placed = device_of.find(node->id);
    // Without a placement, the requested devices are shown.
    const std::string device = placed != device_of.end() ? placed->second
                               : device_of.empty()       ? node->device
                                                         : "";
    by_device[device].push_back(node.get());
  }
  std::string text =
      "digraph troupe {\n  rankdir=TB;\n  node [shape=box, style=\"rounded,filled\", "
      "fillcolor=white, ";
  text += "fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\", fontsize=9];\n";
  size_t cluster = 0;
  for (const auto& [device, nodes] : by_device) {
    const std::string indent = device.empty() ? "  " : "    ";
    if (!device.empty()) {
      text += detail::concat(
          "  subgraph cluster_", cluster, " {\n    label=", dot_text(device),
          "; style=filled; color=", dot_text(colours[cluster % std::size(colours)]), ";\n");
      ++cluster;
    }
    for (const Node* node : nodes) {
      const auto note = notes.find(node->id);
      text += indent + node_line(*node, note == notes.end() ? "" : note->second);
    }
    if (!device.empty()) text += "  }\n";
  }
  for (const auto& node : graph.nodes()) {
    for (const Output& input : node->inputs)
      text += detail::concat(
          "  n", input.node, " -> n", node->id,
          " [label=", dot_text(detail::concat(TensorType{input.dtype(), input.shape()})), "];\n");
    for (int32_t id : node->control_inputs)
      text += detail::concat("  n", id, " -> n", node->id, " [style=dashed];\n");
  }
  return text + "}\n";
}

}  // namespace troupe
