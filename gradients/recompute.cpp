// The functions of troupe/graph.hpp and gradients/recompute.hpp. A scope is copied once
// for a pass, in the order of its nodes: a copy reads copies of its own scope, and other values
// through an Identity, which shares the elements and waits for a gradient. So copies run when the
// backward half needs them, may be fused, and are never merged with their originals
// (placement/passes/merge_common.cpp).
#include "troupe/graph.hpp"

#include <algorithm>
#include <set>

#include "graph/flops.hpp"
#include "gradients/gradient_pass.hpp"
#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "graph/prune.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

// True if the node draws by attributes seed, key and replica, which a copy then gets, too.
bool is_random(const Node& node) {
  return node.op->stateful && node.attrs.count("seed") && node.attrs.count("key") &&
         node.attrs.count("replica");
}

bool is_constant(const Node& node) { return node.inputs.empty() && node.op->name == "Constant"; }

}  // namespace

Graph::Scope recompute(Graph& graph, std::string name, Origin at) {
  return graph.scope({.name = std::move(name), .recompute = true}, at);
}

bool Recomputation::repeats(const Node& node, int32_t scope) const {
  return node.op->control == ControlKind::none && !node.outputs.empty() && !is_constant(node) &&
         (!node.op->stateful || is_random(node)) &&
         node.frame == graph_.state().recompute_scopes[static_cast<size_t>(scope)].frame;
}

const Node& Recomputation::again(const Node& node, const std::vector<Output>& arrived,
                                 const FrameRoute& route) {
  if (node.recompute < 0) return node;
  const Copies& copies = copies_of(node.recompute, arrived, route);
  const auto it = copies.find(node.id);
  return it == copies.end() ? node : graph_.node(it->second);
}

const Recomputation::Copies& Recomputation::copies_of(int32_t scope,
                                                      const std::vector<Output>& arrived,
                                                      const FrameRoute& route) {
  const auto [known, fresh] = copies_.try_emplace(scope);
  if (!fresh) return known->second;
  // A copy, as the list of scopes may grow meanwhile.
  const RecomputeScope what = graph_.state().recompute_scopes[static_cast<size_t>(scope)];
  if (what.parent >= 0) copies_of(what.parent, arrived, route);
  for (int32_t id : what.nodes)
    if (const Node& node = graph_.node(id); repeats(node, scope)) copy(node, scope, arrived, route);
  return known->second;
}

void Recomputation::copy(const Node& node, int32_t scope, const std::vector<Output>& arrived,
                         const FrameRoute& route) {
  const OnBehalf place(graph_, node, frames_.of(node.frame), route);
  Copies& copies = copies_.at(scope);
  std::vector<Output> inputs;
  for (const Output& input : node.inputs)
    if (const auto own = copies.find(input.node); own != copies.end())
      inputs.push_back({&graph_, own->second, input.index});
    else
      inputs.push_back(outside(input, node, scope, arrived));
  Attrs attrs = node.attrs;
  if (is_random(node) && node.attr<std::string>("key").empty()) attrs["key"] = node.name;
  std::vector<int32_t> before;
  if (std::all_of(node.inputs.begin(), node.inputs.end(),
                  [&](const Output& input) { return is_constant(graph_.node(input.node)); }))
    before = controls(node, arrived);
  const Output made = graph_.add({.op = node.op->name,
                                  .inputs = std::move(inputs),
                                  .attrs = std::move(attrs),
                                  .name = "again",
                                  .control_inputs = std::move(before)});
  set_original(graph_, made.node, node.id);
  copies[node.id] = made.node;
}

// The value that copies in `scope` read in place of a value from outside of it: the same value, but
// not before the gradients have come.
Output Recomputation::outside(const Output& value, const Node& reader, int32_t scope,
                              const std::vector<Output>& arrived) {
  if (is_constant(graph_.node(value.node))) return value;
  const auto [known, fresh] = gates_[scope].try_emplace(value);
  if (!fresh) return known->second;
  Output around = value;
  for (int32_t s = graph_.state().recompute_scopes[static_cast<size_t>(scope)].parent;
       s >= 0 && around.is(value);
       s = graph_.state().recompute_scopes[static_cast<size_t>(s)].parent)
    if (const auto it = copies_.at(s).find(value.node); it != copies_.at(s).end())
      around.node = it->second;
  known->second = graph_.add({.op = "Identity",
                              .inputs = {around},
                              .name = "kept",
                              .control_inputs = controls(reader, arrived)});
  return known->second;
}

std::vector<int32_t> Recomputation::controls(const Node& node,
                                             const std::vector<Output>& arrived) const {
  std::vector<int32_t> out;
  for (const Output& gradient : arrived)
    if (gradient.defined() &&
        encloses(graph_, graph_.node(gradient.node).frame, current_frame(graph_)))
      out.push_back(gradient.node);
  for (const Output& end : ends_) {
    const Node& y = graph_.node(end.node);
    if (y.device == node.device && y.replica == node.replica &&
        encloses(graph_, y.frame, current_frame(graph_)))
      out.push_back(y.id);
  }
  return out;
}

namespace {

// An upper limit for one value: no device has more memory, and sums of a million of them fit.
constexpr double kValueBytesMax = int64_t{1} << 42;

int64_t bytes_of(const Output& value) {
  auto bytes = static_cast<double>(size_of(value.dtype()));  // exact for all sizes that matter
  for (int64_t size : value.shape())
    if (size >= 0) bytes *= static_cast<double>(size);
  return static_cast<int64_t>(std::min(bytes, kValueBytesMax));
}

// Counts the copies that a call runs, and the readers of each value.
class Account {
 public:
  Account(const Graph& graph, const std::vector<int32_t>& ids) : graph_(graph), ids_(ids) {
    for (int32_t id : ids) {
      const Node& node = graph.node(id);
      const bool copy = is_copy(id);
      for (const Output& input : node.inputs) {
        const int32_t from = original_of(graph, input.node);
        if (from != input.node && !copy) read_again_.insert({input.graph, from, input.index});
        if (from == input.node && copy) kept_.insert(source(input));
      }
    }
  }

  RecomputedScope of(const RecomputeScope& scope) const {
    const auto in_scope = [&](int32_t id) {
      return std::binary_search(scope.nodes.begin(), scope.nodes.end(), id);
    };
    RecomputedScope out{.name = scope.name};
    std::set<Output, OutputOrder> reads;
    for (int32_t id : ids_) {
      if (!is_copy(id) || !in_scope(original_of(graph_, id))) continue;
      const Node& node = graph_.node(id);
      ++out.nodes;
      out.flops += static_cast<double>(known_flops(node));
      for (const Output& input : node.inputs)
        if (const Output from = source(input);
            !is_copy(from.node) && !in_scope(from.node) && counts(from))
          reads.insert(from);
    }
    for (const Output& value : reads) out.kept_bytes += bytes_of(value);
    for (const Output& value : read_again_)
      if (in_scope(value.node) && !kept_.count(value) && counts(value))
        out.freed_bytes += bytes_of(value);
    return out;
  }

 private:
  bool is_copy(int32_t id) const { return original_of(graph_, id) != id; }
  // The value that owns the elements, not one that only aliases them or waits for a gradient.
  Output source(Output value) const {
    while (!is_copy(value.node) && graph_.node(value.node).op->aliases)
      value = graph_.node(value.node).inputs[0];
    return value;
  }
  // True if the value takes memory in this step.
  bool counts(const Output& value) const {
    const Node& node = graph_.node(value.node);
    return !node.op->aliases && !is_constant(node) && (!node.op->stateful || is_random(node));
  }

  const Graph& graph_;
  const std::vector<int32_t>& ids_;
  std::set<Output, OutputOrder>
      read_again_;  // originals of the values that the backward half reads from copies
  std::set<Output, OutputOrder> kept_;  // values that copies read and that are not copies
};

}  // namespace

std::vector<RecomputedScope> recomputed(const Graph& graph, const std::vector<Output>& fetches,
                                        const std::vector<Output>& feeds) {
  const std::vector<int32_t> ids = prune(graph, fetches, feeds);
  const Account account(graph, ids);
  std::vector<RecomputedScope> out;
  for (const RecomputeScope& scope : graph.state().recompute_scopes)
    if (RecomputedScope one = account.of(scope); one.nodes > 0) out.push_back(std::move(one));
  return out;
}

}  // namespace troupe
