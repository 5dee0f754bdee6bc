// layout: computes on the untransposed values instead of transposed ones, and transposes the result
// for readers outside. A model that is written for another order of dimensions (NCHW, with
// transposes around each convolution, whose images are NHWC) keeps transposes only at its borders:
// those in its middle meet their opposites, and both are removed.
//
// Nodes that may move are element-wise nodes (Kernel::elements), concatenations, borders and
// slices. An input of such a node is transposed in the same way, or has one element, or has one
// dimension larger than one, which takes a Reshape and no copy; any other input is transposed for
// it, which counts against the move. The nodes compute each element from the same operands by the
// same code, so no bit changes. Sums do not move: they would add in another order.
//
// Nodes that read each other in this way form a group, and a group moves if that leaves fewer
// transposed elements; sizes that only a step knows count as 1. A node keeps its name, and its
// value is in the other layout; other nodes read "NAME/transposed". A move may connect further
// groups, so the pass repeats until none moves.
//
// Left alone: nodes with several outputs; frames; nodes that are fetched, fed, awaited or a
// partner, or run after another node; nodes on another device than the transpose.
#include "placement/passes/layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "graph/made_nodes.hpp"
#include "graph/op.hpp"
#include "graph/op_properties.hpp"
#include "placement/passes/passes.hpp"

namespace troupe {
namespace {

using Order = DimensionOrder;

bool is_transpose(const Node& node) { return properties_of(node).arrangement.permutation; }
Order order_of(const Node& node) { return properties_of(node).arrangement.permutation(node); }

double elements_of(const Shape& shape) {
  double all = 1;
  for (const int64_t size : shape) all *= size < 0 ? 1 : static_cast<double>(size);
  return all;
}

enum class Move : uint8_t { none, element_wise, copying };

Move move_of(const Node& node) {
  if (node.outputs.size() != 1 || node.op->stateful || node.inputs.empty()) return Move::none;
  const Arrangement& arrangement = properties_of(node).arrangement;
  if (arrangement.reordered) return Move::copying;
  const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
  return kernel && kernel->elements && !arrangement.by_dimension ? Move::element_wise : Move::none;
}

// How an input beside transposed ones of `ndim` dimensions fits their original layout: as it is, or
// in this shape; not at all if that takes a copy.
struct Beside {
  bool fits = false, as_it_is = false;
  Shape shape = {};
};
Beside beside(const Shape& shape, const Order& order) {
  if (!shape.is_known() || shape.ndim() > static_cast<int>(order.size())) return {};
  const auto large = std::count_if(shape.begin(), shape.end(), [](int64_t n) { return n != 1; });
  if (large == 0) return {.fits = true, .as_it_is = true};
  if (large > 1) return {};
  std::vector<int64_t> dims(order.size(), 1);
  std::copy(shape.begin(), shape.end(), dims.end() - shape.ndim());
  return {.fits = true, .shape = Shape(in_order_before(order, dims))};
}

// One round: the groups of a graph, the choice of those that move, and the moved nodes.
class Groups {
 public:
  // takes_others: nodes with inputs that are not transposed may be in a group.
  Groups(const CallGraph& call, bool takes_others)
      : graph_(*call.graph), roles_(roles_of(call)), takes_others_(takes_others) {
    for (const auto& node : graph_.nodes()) visit(*node);
    for (const auto& node : graph_.nodes()) weigh(*node);
    for (size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].leader) choose(static_cast<int32_t>(g));
  }

  bool any() const { return any_; }
  Rewritten move(CallGraph call) const;

 private:
  struct Group {
    bool leader = true;                    // false: merged into another group
    std::vector<int32_t> roots;            // transposes at its beginning
    std::vector<int32_t> nodes;            // nodes that would move
    std::set<int32_t> read;                // roots and nodes whose value other nodes read as it is
    std::set<Output, OutputOrder> others;  // inputs that would be transposed for its nodes
    double gain = 0;                       // transposed elements saved
    bool moves = false;
    Order order;
  };

  const NodeRoles& roles(const Node& node) const { return roles_[static_cast<size_t>(node.id)]; }
  // The group of a node's value; -1: none.
  int32_t group_of(int32_t node) const {
    const auto it = group_of_.find(node);
    if (it == group_of_.end()) return -1;
    int32_t g = it->second;
    while (!groups_[static_cast<size_t>(g)].leader) g = groups_[static_cast<size_t>(g)].nodes[0];
    return g;
  }
  Group& group(int32_t g) { return groups_[static_cast<size_t>(g)]; }
  const Group& group(int32_t g) const { return groups_[static_cast<size_t>(g)]; }

  bool stands_free(const Node& node) const {
    const NodeRoles& r = roles(node);
    return r.runs && !r.fed && !r.partner && node.control_inputs.empty() && node.frame < 0;
  }
  bool together(const Node& node, const Group& with) const {
    const Node& root = graph_.node(with.roots[0]);
    return node.device == root.device && node.colocate_with == root.colocate_with;
  }

  void visit(const Node& node);
  int32_t unite(int32_t into, int32_t other);
  void weigh(const Node& node);
  void choose(int32_t g);
  static Output other_input(CallGraph& call, const Group& group, const Node& node,
                            const Output& input);

  const Graph& graph_;
  const std::vector<NodeRoles> roles_;
  const bool takes_others_;
  std::vector<Group> groups_;
  std::map<int32_t, int32_t> group_of_;  // by node; its only output
  std::set<int32_t> waiting_;            // groups whose values a moving group begins with
  bool any_ = false;
};

// Merges the smaller group into the larger one; returns the number of that.
int32_t Groups::unite(int32_t into, int32_t other) {
  if (into == other) return into;
  if (group(into).nodes.size() < group(other).nodes.size()) std::swap(into, other);
  Group &to = group(into), &from = group(other);
  to.roots.insert(to.roots.end(), from.roots.begin(), from.roots.end());
  to.nodes.insert(to.nodes.end(), from.nodes.begin(), from.nodes.end());
  to.others.merge(from.others);
  from = {.leader = false, .nodes = {into}};
  return into;
}

// Puts a node that could move into the group of its inputs; a transpose begins a group.
void Groups::visit(const Node& node) {
  if (!stands_free(node)) return;
  if (is_transpose(node)) {
    const Order order = order_of(node);
    if (std::is_sorted(order.begin(), order.end())) return;
    group_of_[node.id] = static_cast<int32_t>(groups_.size());
    groups_.push_back({.roots = {node.id}, .order = order});
    return;
  }
  const Move move = roles(node).free() ? move_of(node) : Move::none;
  if (move == Move::none) return;
  int32_t first = -1;
  for (const Output& input : node.inputs)
    if (first < 0) first = group_of(input.node);
  if (first < 0 || !together(node, group(first))) return;
  const Order order = group(first).order;
  const auto ndim = static_cast<int>(order.size());
  if (node.outputs[0].shape.ndim() != ndim) return;
  std::set<Output, OutputOrder> others;
  for (const Output& input : node.inputs) {
    if (const int32_t g = group_of(input.node); g >= 0) {
      if (group(g).order != order || !together(node, group(g))) return;
    } else if (move != Move::element_wise || !beside(input.shape(), order).fits) {
      if (!takes_others_ || input.shape().ndim() != ndim) return;
      others.insert(input);
    }
  }
  for (const Output& input : node.inputs)
    if (const int32_t g = group_of(input.node); g >= 0) first = unite(first, g);
  group(first).others.merge(others);
  group(first).nodes.push_back(node.id);
  group_of_[node.id] = first;
}

// Accounts for the node's inputs from groups that it is not in.
void Groups::weigh(const Node& node) {
  const NodeRoles& r = roles(node);
  const int32_t own = group_of(node.id);
  if (!r.runs) return;
  if (own >= 0 && (r.fetched || r.awaited)) group(own).read.insert(node.id);
  for (const Output& input : node.inputs) {
    const int32_t g = group_of(input.node);
    if (g < 0 || (g == own && !is_transpose(node))) continue;
    if (!is_transpose(node) || !stands_free(node) || !together(node, group(g))) {
      group(g).read.insert(input.node);
      continue;
    }
    // Two transposes become one, or none if they are opposites.
    Order order = order_of(node);
    for (int64_t& axis : order) axis = group(g).order[static_cast<size_t>(axis)];
    if (r.free() && std::is_sorted(order.begin(), order.end()))
      group(g).gain += elements_of(node.outputs[0].shape);
  }
}

// If one group begins with the values that another one ends with, one of them waits for the next
// round.
void Groups::choose(int32_t g) {
  Group& group = this->group(g);
  const auto is_read = [&](int32_t id) { return group.read.count(id) > 0; };
  for (const int32_t id : group.roots)
    if (!is_read(id)) group.gain += elements_of(graph_.node(id).outputs[0].shape);
  for (const int32_t id : group.nodes)
    if (is_read(id)) group.gain -= elements_of(graph_.node(id).outputs[0].shape);
  for (const Output& other : group.others) group.gain -= elements_of(other.shape());
  if (group.nodes.empty() || group.gain <= 0 || waiting_.count(g)) return;
  std::set<int32_t> from;
  for (const int32_t id : group.roots)
    if (const int32_t of = group_of(graph_.node(id).inputs[0].node); of >= 0) from.insert(of);
  if (std::any_of(from.begin(), from.end(),
                  [&](int32_t of) { return of == g || this->group(of).moves; }))
    return;
  waiting_.merge(from);
  std::sort(group.nodes.begin(), group.nodes.end());
  group.moves = any_ = true;
}

// The attributes of a node that moves.
Attrs moved_attrs(const Node& node, const Order& order) {
  const auto reordered = properties_of(node).arrangement.reordered;
  return reordered ? reordered(node, order) : node.attrs;
}

// A node's input in the other layout, if the input itself does not move.
Output Groups::other_input(CallGraph& call, const Group& group, const Node& node,
                           const Output& input) {
  if (!group.others.count(input)) {
    const Beside there = beside(input.shape(), group.order);
    return there.as_it_is ? input
                          : add_part(call, node, reshape_node(input, there.shape), "beside");
  }
  Order places(group.order.size());
  std::iota(places.begin(), places.end(), 0);
  return add_part(call, node, transpose_node(input, in_order_before(group.order, places)),
                  "beside");
}

Rewritten Groups::move(CallGraph call) const {
  struct Moved {
    int32_t node;
    Output now, back;  // the moved node; its value in the old layout
  };
  std::vector<Moved> all;
  for (const Group& group : groups_) {
    if (!group.moves) continue;
    std::map<Output, Output, OutputOrder> there;  // values in the other layout
    for (const int32_t id : group.roots)
      there[{call.graph.get(), id, 0}] = graph_.node(id).inputs[0];
    for (const int32_t id : group.nodes) {
      const Node& node = graph_.node(id);
      std::vector<Output> inputs;
      for (const Output& input : node.inputs) {
        if (!there.count(input)) there[input] = other_input(call, group, node, input);
        inputs.push_back(there[input]);
      }
      const Output now = add_part(call, node,
                                  {.op = node.op->name,
                                   .inputs = std::move(inputs),
                                   .attrs = moved_attrs(node, group.order)},
                                  "moved");
      const Output back = add_part(call, node, transpose_node(now, group.order), "transposed");
      there[{call.graph.get(), id, 0}] = now;
      all.push_back({id, now, back});
    }
  }
  // The node itself becomes its moved copy, so that its name stays with its result.
  Edits edits(call);
  for (const auto& [id, now, back] : all) {
    const Node &made = graph_.node(now.node), &transpose = graph_.node(back.node);
    edits.fuse(graph_.node(id), *made.op, made.inputs, made.attrs, {now});
    edits.fuse(transpose, *transpose.op, transpose.inputs, transpose.attrs,
               {{call.graph.get(), id, 0}});
  }
  return std::move(edits).apply(std::move(call));
}

}  // namespace

// First tries groups with inputs that must be transposed for them: they connect nodes that can only
// move together. If such a group does not pay, it may move without those nodes.
Rewritten layout(CallGraph call) {
  constexpr int kRoundsMax = 64;  // each leaves fewer elements to transpose
  OutputMap moved(*call.graph);
  const auto taken = [&](Rewritten now) {
    for (Output& output : moved.all())
      if (output.graph) output = now.moved[output];
    return std::move(now.call);
  };
  const auto has_transposes = [&] {
    const auto& nodes = call.graph->nodes();
    return std::any_of(nodes.begin(), nodes.end(), [](const auto& n) { return is_transpose(*n); });
  };
  bool takes_others = true;
  for (int round = 0; round < kRoundsMax && has_transposes(); ++round) {
    const Groups groups(call, takes_others);
    if (!groups.any()) {
      if (!takes_others) break;
      takes_others = false;
      continue;
    }
    call = taken(groups.move(std::move(call)));
    for (const auto pass : {simplify, merge_common}) {  // opposites that have met; equal transposes
      Edits edits = pass(call);
      call = taken(std::move(edits).apply(std::move(call)));
    }
    takes_others = true;
  }
  return {std::move(call), std::move(moved)};
}

}  // namespace troupe
