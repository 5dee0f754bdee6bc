// The graph of a call, and how edits change it: applies Edits, reorders and renumbers nodes.
#include "placement/passes/rewrite.hpp"

#include <algorithm>
#include <set>

#include "graph/device_name.hpp"
#include "graph/graph_state.hpp"
#include "graph/prune.hpp"
#include "placement/passes/passes.hpp"

namespace troupe {
namespace {

// The nodes that the call needs, and the fed nodes with all their ancestors, so that the graph is
// complete. By id.
std::vector<int32_t> kept_nodes(const Graph& graph, const std::vector<Output>& fetches,
                                const std::vector<Output>& feeds) {
  std::vector<int32_t> ids = prune(graph, fetches, feeds);
  std::vector<bool> kept(graph.nodes().size());
  for (int32_t id : ids) kept[static_cast<size_t>(id)] = true;
  std::vector<int32_t> open;
  const auto keep = [&](int32_t id) {
    if (kept[static_cast<size_t>(id)]) return;
    kept[static_cast<size_t>(id)] = true;
    open.push_back(id);
  };
  for (const Output& feed : feeds) keep(feed.node);
  if (open.empty()) return ids;
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    ids.push_back(open.back());
    open.pop_back();
    for (const Output& input : node.inputs) keep(input.node);
    for (int32_t id : node.control_inputs) keep(id);
    if (node.frame >= 0) keep(node.frame);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

// A removed partner passes its requested device and its own partner on.
void outlive_partners(const Graph& graph, const std::vector<int32_t>& number, Node& node) {
  while (!node.colocate_with.empty()) {
    const Node* partner = graph.find(node.colocate_with);
    if (partner && number[static_cast<size_t>(partner->id)] >= 0) return;
    node.colocate_with = partner ? partner->colocate_with : "";
    if (partner && !partner->device.empty())
      node.device =
          to_string(merge(parse_device_name(node.device), parse_device_name(partner->device)));
  }
}

// The nodes in an order where each comes after the nodes it needs, otherwise by number: an edit may
// have made a node read a later one. Requires: no node needs itself.
std::vector<int32_t> in_order(const Graph& graph, std::vector<int32_t> kept) {
  std::vector<bool> waits(graph.nodes().size());
  for (int32_t id : kept) waits[static_cast<size_t>(id)] = true;
  std::vector<int32_t> order, open;
  order.reserve(kept.size());
  const auto first_need = [&](const Node& node) {
    for (const Output& input : node.inputs)
      if (waits[static_cast<size_t>(input.node)]) return input.node;
    for (int32_t id : node.control_inputs)
      if (waits[static_cast<size_t>(id)]) return id;
    return node.frame >= 0 && waits[static_cast<size_t>(node.frame)] ? node.frame : -1;
  };
  for (int32_t id : kept) {
    if (waits[static_cast<size_t>(id)]) open.push_back(id);
    while (!open.empty()) {
      const int32_t last = open.back();
      if (const int32_t need = first_need(graph.node(last)); need >= 0) {
        TROUPE_CHECK(open.size() <= kept.size(), "an edit has made the ",
                     describe(graph.node(last)), " wait for itself");
        open.push_back(need);
        continue;
      }
      open.pop_back();
      waits[static_cast<size_t>(last)] = false;
      order.push_back(last);
    }
  }
  return order;
}

// New numbers of the kept nodes, by old number; -1 for the others.
std::vector<int32_t> numbers_of(const std::vector<int32_t>& kept, size_t nodes) {
  std::vector<int32_t> number(nodes, -1);
  for (size_t i = 0; i < kept.size(); ++i)
    number[static_cast<size_t>(kept[i])] = static_cast<int32_t>(i);
  return number;
}

// The nodes of a pass's own graph may be written.
Node& editable_node(Graph& graph, int32_t id) {
  return *graph.state().nodes[static_cast<size_t>(id)];
}

void redirect(Graph& graph, const OutputMap& now, std::vector<int32_t>& before) {
  bool moved = false;
  for (int32_t& id : before) {
    const int32_t to = now[{&graph, id, 0}].node;
    moved = moved || to != id;
    id = to;
  }
  if (!moved) return;
  std::set<int32_t> seen;  // several may have become one
  std::erase_if(before, [&](int32_t id) { return !seen.insert(id).second; });
}

void write_changes(Graph& graph, std::map<int32_t, Node>& changed,
                   const std::map<int32_t, int32_t>& renamed, const OutputMap& now) {
  GraphState& state = graph.state();
  for (auto& [id, node] : changed) editable_node(graph, id) = std::move(node);
  for (const auto& [id, like] : renamed) {
    Node& node = editable_node(graph, id);
    const Node& other = graph.node(like);
    state.by_name.erase(node.name);
    node.name = other.name;
    node.file = other.file;
    node.line = other.line;
    state.by_name[node.name] = id;
  }
  for (auto& node : state.nodes) {
    for (Output& input : node->inputs) input = now[input];
    redirect(graph, now, node->control_inputs);
  }
}

// Removes all nodes that have no number.
void keep(Graph& graph, const std::vector<int32_t>& kept, const std::vector<int32_t>& number) {
  GraphState& state = graph.state();
  for (int32_t id : kept) outlive_partners(graph, number, editable_node(graph, id));
  std::vector<std::unique_ptr<Node>> nodes;
  nodes.reserve(kept.size());
  for (auto it = state.by_name.begin(); it != state.by_name.end();) {
    it->second = number[static_cast<size_t>(it->second)];
    it = it->second < 0 ? state.by_name.erase(it) : std::next(it);
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    auto& place = nodes.emplace_back(std::move(state.nodes[static_cast<size_t>(kept[i])]));
    place->id = static_cast<int32_t>(i);
    for (Output& input : place->inputs) input.node = number[static_cast<size_t>(input.node)];
    for (int32_t& id : place->control_inputs) id = number[static_cast<size_t>(id)];
    if (place->frame >= 0) place->frame = number[static_cast<size_t>(place->frame)];
  }
  state.nodes = std::move(nodes);
}

}  // namespace

OutputMap::OutputMap(const Graph& graph) {
  first_.reserve(graph.nodes().size());
  places_.reserve(graph.nodes().size());
  for (const auto& node : graph.nodes()) {
    first_.push_back(places_.size());
    const auto count = static_cast<int32_t>(std::max<size_t>(1, node->outputs.size()));
    for (int32_t i = 0; i < count; ++i)
      places_.push_back({const_cast<Graph*>(&graph), node->id, i});
  }
}

CallGraph call_graph(const Graph& graph, const std::vector<Output>& fetches,
                     const std::vector<Output>& feeds,
                     const std::map<int32_t, std::string>* devices) {
  CallGraph call;
  call.origins = kept_nodes(graph, fetches, feeds);
  call.graph = copy_of(graph, call.origins);
  const std::vector<int32_t> number = numbers_of(call.origins, graph.nodes().size());
  for (size_t i = 0; i < call.origins.size(); ++i) {
    Node& node = editable_node(*call.graph, static_cast<int32_t>(i));
    if (!devices) {
      outlive_partners(graph, number, node);
      continue;
    }
    node.colocate_with.clear();
    if (const auto it = devices->find(call.origins[i]); it != devices->end())
      node.device = it->second;
  }
  const auto moved = [&](const std::vector<Output>& outputs) {
    std::vector<Output> result;
    for (const Output& output : outputs)
      result.push_back({call.graph.get(), number[static_cast<size_t>(output.node)], output.index});
    return result;
  };
  call.fetches = moved(fetches);
  call.feeds = moved(feeds);
  return call;
}

Output add_part(CallGraph& call, const Node& of, NodeSpec spec, const std::string& part) {
  const auto scope = call.graph->scope(
      {.device = of.device, .replica = of.replica, .colocate_with = of.colocate_with});
  call.origins.push_back(call.origins[static_cast<size_t>(of.id)]);
  const std::string name = of.name + "/" + part;
  spec.name = name;
  return call.graph->add(std::move(spec), {of.file.c_str(), of.line});
}

std::vector<NodeRoles> roles_of(const CallGraph& call) {
  std::vector<NodeRoles> roles(call.graph->nodes().size());
  const auto role = [&](int32_t id) -> NodeRoles& { return roles[static_cast<size_t>(id)]; };
  for (int32_t id : prune(*call.graph, call.fetches, call.feeds)) role(id).runs = true;
  for (const Output& output : call.fetches) role(output.node).fetched = true;
  for (const Output& output : call.feeds) role(output.node).fed = true;
  for (const auto& node : call.graph->nodes()) {
    for (int32_t id : node->control_inputs) role(id).awaited = true;
    if (node->frame >= 0) role(node->frame).awaited = true;
    if (node->colocate_with.empty()) continue;
    if (const Node* partner = call.graph->find(node->colocate_with))
      role(partner->id).partner = true;
  }
  return roles;
}

void Edits::forward(const Node& node, const Output& to) {
  const Output from{const_cast<Graph*>(&graph_), node.id, 0};
  TROUPE_CHECK(node.outputs.size() == 1 && to.node < node.id &&
                   node.outputs[0] == (TensorType{to.dtype(), to.shape()}),
               "the ", describe(node), " cannot be replaced by output ", to.index, " of ",
               to.name());
  now_[from] = now_[to];
}

void Edits::merge(const Node& node, const Node& into) {
  TROUPE_CHECK(into.id < node.id && into.outputs == node.outputs, "the ", describe(node),
               " is not like the ", describe(into));
  Graph* const graph = const_cast<Graph*>(&graph_);
  const auto count = static_cast<int32_t>(std::max<size_t>(1, node.outputs.size()));
  for (int32_t i = 0; i < count; ++i) now_[{graph, node.id, i}] = {graph, into.id, i};
}

void Edits::merge_and_rename(const Node& node, const Node& into) {
  merge(node, into);
  renamed_[into.id] = node.id;
}

void Edits::change(const Node& node, const Op& op, std::vector<Output> inputs, Attrs attrs) {
  Node next = this->node(node.id);
  next.op = &op;
  next.inputs = std::move(inputs);
  next.attrs = std::move(attrs);
  changed_.insert_or_assign(node.id, std::move(next));
}

void Edits::run_after(const Node& node, int32_t old, const std::vector<int32_t>& others) {
  Node next = this->node(node.id);
  std::erase(next.control_inputs, old);
  for (const int32_t id : others) {
    TROUPE_CHECK(id < node.id, "the ", describe(node), " cannot run after a later node");
    if (std::find(next.control_inputs.begin(), next.control_inputs.end(), id) ==
        next.control_inputs.end())
      next.control_inputs.push_back(id);
  }
  changed_.insert_or_assign(node.id, std::move(next));
}

void Edits::fuse(const Node& node, const Op& op, std::vector<Output> inputs, Attrs attrs,
                 const std::vector<Output>& outputs) {
  change(node, op, std::move(inputs), std::move(attrs));
  std::vector<TensorType>& types = changed_.at(node.id).outputs;
  types.clear();
  for (const Output& output : outputs) {
    now_[output] = {const_cast<Graph*>(&graph_), node.id, static_cast<int32_t>(types.size())};
    types.push_back({output.dtype(), output.shape()});
  }
}

Rewritten Edits::apply(CallGraph call) && {
  Graph& graph = *call.graph;
  for (const auto& [id, like] : renamed_)
    call.origins[static_cast<size_t>(id)] = call.origins[static_cast<size_t>(like)];
  write_changes(graph, changed_, renamed_, now_);
  for (Output& fetch : call.fetches) fetch = now(fetch);
  const std::vector<int32_t> kept = in_order(graph, kept_nodes(graph, call.fetches, call.feeds));
  const std::vector<int32_t> number = numbers_of(kept, graph.nodes().size());
  keep(graph, kept, number);
  const auto renumber = [&](Output& output) {
    output.node = number[static_cast<size_t>(output.node)];
    if (output.node < 0) output = {};
  };
  for (Output& fetch : call.fetches) renumber(fetch);
  for (Output& feed : call.feeds) renumber(feed);
  std::vector<int32_t> origins;
  for (int32_t id : kept) origins.push_back(call.origins[static_cast<size_t>(id)]);
  call.origins = std::move(origins);
  for (Output& output : now_.all()) renumber(output);
  return {std::move(call), std::move(now_)};
}

}  // namespace troupe
