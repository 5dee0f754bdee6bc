// Implements placement/partition.hpp: the cut, in one pass over the needed nodes, and then the
// order of each part.
#include "placement/partition.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "graph/passes.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

// Grows all partitions at once. Nodes are added in the order of their ids, a Receive right before
// its first reader and a Send when its first reader is found, so that every partition is in
// topological order at any time.
class Cutter {
 public:
  Cutter(const Graph& graph, const std::map<int32_t, std::string>& device_of, std::string client)
      : graph_(graph), device_of_(device_of), client_(std::move(client)) {}

  void feed(const Output& output) {
    const int32_t at =
        append(client_, {.kind = PartKind::feed, .node = output.node, .output = output.index});
    values_[{client_, output.node, output.index}] = {at, 0};
    fed_.insert(output);
  }

  void run(const Node& node, const std::set<int32_t>& needed) {
    const std::string& device = device_of(node.id);
    PartNode part{.kind = PartKind::op, .node = node.id};
    for (const Output& input : node.inputs) part.inputs.push_back(value(input, device));
    for (int32_t id : node.control_inputs)
      if (needed.count(id)) add_control(part, ran(id, device));
    const int32_t at = append(device, std::move(part));
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
      if (!fed_.count(output_of(node.id, i))) values_[{device, node.id, i}] = {at, i};
    values_[{device, node.id, kRan}] = {at, 0};
  }

  void fetch(const Output& output) {
    PartNode part{.kind = PartKind::fetch, .node = output.node, .output = output.index};
    if (graph_.node(output.node).outputs.empty())
      add_control(part, ran(output.node, client_));
    else
      part.inputs.push_back(value(output, client_));
    fetches_.push_back(std::move(part));
  }

  std::vector<Partition> finish() {
    for (PartNode& part : fetches_) append(client_, std::move(part));
    std::vector<Partition> result;
    const auto take = [&](Partition& partition) {
      put_in_firing_order(partition.nodes);
      std::sort(partition.edges.begin(), partition.edges.end(),
                [](const Edge& a, const Edge& b) { return a.id < b.id; });
      result.push_back(std::move(partition));
    };
    if (const auto it = partitions_.find(client_); it != partitions_.end()) take(it->second);
    for (auto& [device, partition] : partitions_)
      if (device != client_) take(partition);
    return result;
  }

 private:
  static constexpr int32_t kRan = -1;  // in place of an output's index: that the node has run
  // Device, node, output. All names of devices are those in device_of_ and client_, which stay.
  using Key = std::tuple<std::string_view, int32_t, int32_t>;
  struct KeyHash {
    size_t operator()(const Key& key) const {
      const auto& [device, node, output] = key;
      const auto value =
          static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32 | static_cast<uint32_t>(output);
      return std::hash<std::string_view>()(device) ^ value * 0x9e3779b97f4a7c15u;
    }
  };

  Output output_of(int32_t node, int32_t index) const {
    return {const_cast<Graph*>(&graph_), node, index};
  }

  const std::string& device_of(int32_t node) const {
    const auto it = device_of_.find(node);
    TROUPE_CHECK(it != device_of_.end(), "the ", describe(graph_.node(node)),
                 " has not been placed");
    return it->second;
  }

  int32_t append(const std::string& device, PartNode node) {
    Partition& partition = partitions_[device];
    partition.device = device;
    partition.nodes.push_back(std::move(node));
    return static_cast<int32_t>(partition.nodes.size()) - 1;
  }

  // A long list may hold one several times until put_in_firing_order().
  static void add_control(PartNode& part, int32_t from) {
    constexpr size_t kLong = 16;
    if (part.controls.size() >= kLong ||
        std::find(part.controls.begin(), part.controls.end(), from) == part.controls.end())
      part.controls.push_back(from);
  }

  PartInput value(const Output& output, const std::string& device) {
    const std::string& home = fed_.count(output) ? client_ : device_of(output.node);
    return at(home, output.node, output.index, device);
  }
  int32_t ran(int32_t node, const std::string& device) {
    return at(device_of(node), node, kRan, device).node;
  }

  // Where a value stands in the partition of `device`; it is sent there if it does not.
  PartInput at(const std::string& home, int32_t node, int32_t output, const std::string& device) {
    const auto found = values_.find({device, node, output});
    if (found != values_.end()) return found->second;
    TROUPE_CHECK(device != home, "output ", output, " of the ", describe(graph_.node(node)),
                 " is read before it is there");
    const PartInput from = values_.at({home, node, output});
    const bool control = output == kRan;
    Edge edge{.id = edges_++,
              .node = node,
              .output = control ? 0 : output,
              .source = home,
              .destination = device};
    edge.control = control;
    edge.dtype = control ? DType::u8 : graph_.node(node).outputs[static_cast<size_t>(output)].dtype;
    edge.shape = control ? Shape{0} : graph_.node(node).outputs[static_cast<size_t>(output)].shape;

    PartNode send{.kind = PartKind::send, .edge = edge.id};
    if (control)
      send.controls.push_back(from.node);
    else
      send.inputs.push_back(from);
    append(home, std::move(send));
    const PartInput here{append(device, {.kind = PartKind::receive, .edge = edge.id}), 0};
    values_[{device, node, output}] = here;
    partitions_[home].edges.push_back(edge);
    partitions_[device].edges.push_back(std::move(edge));
    return here;
  }

  static void put_in_firing_order(std::vector<PartNode>& nodes) {
    const std::vector<int32_t> order = firing_order(nodes);
    std::vector<int32_t> number(nodes.size());
    for (size_t i = 0; i < order.size(); ++i)
      number[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    std::vector<PartNode> ordered;
    for (int32_t from : order) {
      PartNode node = std::move(nodes[static_cast<size_t>(from)]);
      for (PartInput& input : node.inputs) input.node = number[static_cast<size_t>(input.node)];
      for (int32_t& control : node.controls) control = number[static_cast<size_t>(control)];
      std::sort(node.controls.begin(), node.controls.end());
      node.controls.erase(std::unique(node.controls.begin(), node.controls.end()),
                          node.controls.end());
      ordered.push_back(std::move(node));
    }
    nodes = std::move(ordered);
  }

  const Graph& graph_;
  const std::map<int32_t, std::string>& device_of_;
  const std::string client_;
  std::map<std::string, Partition> partitions_;
  std::unordered_map<Key, PartInput, KeyHash> values_;  // where each value stands on each device
  std::set<Output> fed_;
  std::vector<PartNode> fetches_;
  int32_t edges_ = 0;
};

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
      return detail::concat(kind, " ", node.edge);
    case PartKind::feed:
      return detail::concat(kind, " ", graph.node(node.node).name, ":", node.output);
    case PartKind::fetch:
      return detail::concat(kind, " ", graph.node(node.node).name, ":", node.output, reading(node));
  }
  return kind;
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
  }
  return "unknown";
}

std::vector<Partition> partition(const Graph& graph, const std::vector<Output>& fetches,
                                 const std::vector<Output>& feeds,
                                 const std::map<int32_t, std::string>& device_of,
                                 const std::string& client_device) {
  const std::vector<int32_t> ids = prune(graph, fetches, feeds);
  const std::set<int32_t> needed(ids.begin(), ids.end());
  Cutter cutter(graph, device_of, client_device);
  for (const Output& output : feeds) cutter.feed(output);
  for (int32_t id : ids) cutter.run(graph.node(id), needed);
  for (const Output& output : fetches) cutter.fetch(output);
  return cutter.finish();
}

std::vector<int32_t> firing_order(const std::vector<PartNode>& nodes) {
  const size_t count = nodes.size();
  std::vector<std::vector<int32_t>> readers(
      count);  // each once, in the order in which they should fire
  std::vector<int32_t> missing(count);
  for (size_t i = 0; i < count; ++i) {
    std::set<int32_t> from(nodes[i].controls.begin(), nodes[i].controls.end());
    for (const PartInput& input : nodes[i].inputs) from.insert(input.node);
    missing[i] = static_cast<int32_t>(from.size());
    for (int32_t j : from) readers.at(static_cast<size_t>(j)).push_back(static_cast<int32_t>(i));
  }
  // What others wait for goes out first.
  for (auto& list : readers)
    std::stable_partition(list.begin(), list.end(), [&](int32_t i) {
      return nodes[static_cast<size_t>(i)].kind == PartKind::send;
    });
  std::vector<int32_t> order, fetches, ready;
  for (size_t i = count; i-- > 0;)
    if (missing[i] == 0) ready.push_back(static_cast<int32_t>(i));
  while (!ready.empty()) {
    const int32_t i = ready.back();
    ready.pop_back();
    (nodes[static_cast<size_t>(i)].kind == PartKind::fetch ? fetches : order).push_back(i);
    const auto& list = readers[static_cast<size_t>(i)];
    for (auto to = list.rbegin(); to != list.rend(); ++to)
      if (--missing[static_cast<size_t>(*to)] == 0) ready.push_back(*to);
  }
  TROUPE_CHECK(order.size() + fetches.size() == count, "the partition has a cycle");
  std::sort(fetches.begin(), fetches.end());
  order.insert(order.end(), fetches.begin(), fetches.end());
  return order;
}

std::string to_text(const Graph& graph, const std::vector<Partition>& partitions) {
  std::string text;
  std::map<int32_t, const Edge*> edges;
  for (const Partition& partition : partitions) {
    text += detail::concat("partition ", partition.device, "\n");
    for (size_t i = 0; i < partition.nodes.size(); ++i)
      text += detail::concat("  ", i, " ", line_of(graph, partition.nodes[i]), "\n");
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
