// join: a backward node that reads the inputs of a forward node becomes one node with it, so that
// the inputs are read once (Op::join): the loss of a softmax and its gradient.
//
// This is possible if the backward node's other inputs do not need the forward node's value. If
// they need only its shape (Op::shape_only), they read the shape of one of the inputs instead. The
// new node has name, device and origin of the backward node; readers of the forward node's value
// move after it.
//
// Left alone: a forward node that is fetched, fed, awaited or a partner; nodes with control inputs;
// devices other than CPUs; a gradient that depends on the value of the loss, as that of a product
// of two losses does.
#include <algorithm>
#include <map>
#include <set>

#include "graph/op.hpp"
#include "placement/passes/on_cpu.hpp"
#include "placement/passes/passes.hpp"

namespace troupe {
namespace {

// The most nodes examined for one pair: the backward node's other inputs usually come from a
// constant a few nodes away.
constexpr size_t kLookedAtMax = 1000;

class Joining {
 public:
  explicit Joining(const CallGraph& call)
      : graph_(*call.graph), roles_(roles_of(call)), edits_(call) {}

  Edits run() {
    std::set<const Op*> forward_ops;
    for (const auto& node : graph_.nodes())
      if (node->op->join) forward_ops.insert(graph_.registry().find(node->op->join->with));
    for (const auto& node : graph_.nodes()) {
      if (!may_join(*node)) continue;
      if (node->op->join) visit(*node);
      if (forward_ops.count(node->op) && roles(*node).free() && !node->inputs.empty())
        forward_[node->op][node->inputs.back()].push_back(node->id);
    }
    return std::move(edits_);
  }

 private:
  // An input whose shape alone is used, and that is to be replaced by another value.
  struct Reader {
    int32_t node = -1;
    size_t input = 0;
  };

  const NodeRoles& roles(const Node& node) const { return roles_[static_cast<size_t>(node.id)]; }

  bool may_join(const Node& node) const {
    const NodeRoles& r = roles(node);
    return r.runs && !r.fed && node.control_inputs.empty() && node.outputs.size() == 1 &&
           is_on_cpu(node);
  }

  void visit(const Node& backward) {
    const OpJoin& join = *backward.op->join;
    const Op* into = graph_.registry().find(join.into);
    const Node* forward = into ? forward_of(backward) : nullptr;
    if (!forward || static_cast<size_t>(join.like) >= forward->inputs.size()) return;
    const auto own = backward.inputs.end() - static_cast<std::ptrdiff_t>(forward->inputs.size());
    const Output like = forward->inputs[static_cast<size_t>(join.like)];
    if (like.shape() != forward->outputs[0].shape) return;
    needs_.clear();
    shapes_.clear();
    for (auto input = backward.inputs.begin(); input != own; ++input)
      if (needs(graph_.node(input->node), *forward)) return;
    for (const Reader& reader : shapes_) {
      const Node& node = edits_.node(reader.node);
      std::vector<Output> inputs = node.inputs;
      inputs[reader.input] = like;
      edits_.change(node, *node.op, std::move(inputs), node.attrs);
    }
    std::vector<Output> inputs = forward->inputs;
    inputs.insert(inputs.end(), backward.inputs.begin(), own);
    const auto value = [&](const Node& node) {
      return Output{const_cast<Graph*>(&graph_), node.id, 0};
    };
    edits_.fuse(backward, *into, std::move(inputs), {}, {value(backward), value(*forward)});
  }

  // An earlier node that reads the last inputs of this one.
  const Node* forward_of(const Node& backward) {
    const Op* with = graph_.registry().find(backward.op->join->with);
    std::vector<int32_t>& found = forward_[with][backward.inputs.back()];
    for (auto id = found.begin(); id != found.end(); ++id) {
      const Node& node = graph_.node(*id);
      if (node.frame != backward.frame || node.device != backward.device ||
          node.colocate_with != backward.colocate_with ||
          node.inputs.size() >= backward.inputs.size() ||
          !std::equal(node.inputs.rbegin(), node.inputs.rend(), backward.inputs.rbegin(),
                      [](const Output& a, const Output& b) { return a.is(b); }))
        continue;
      found.erase(id);  // it serves one node only
      return &node;
    }
    return nullptr;
  }

  // True if a node's value depends on that of `forward`, assuming that inputs used for their shape
  // alone read another value of that shape; notes these inputs.
  bool needs(const Node& node, const Node& forward) {
    if (node.id < forward.id) return false;
    const auto [known, is_new] = needs_.emplace(node.id, true);  // until its inputs show otherwise
    if (!is_new) return known->second;
    if (needs_.size() > kLookedAtMax || node.id == forward.id || node.frame != forward.frame ||
        !roles(node).runs)
      return true;
    for (int32_t id : node.control_inputs)
      if (needs(graph_.node(id), forward)) return true;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Output& input = node.inputs[i];
      if (!needs(graph_.node(input.node), forward)) continue;
      const bool shape_only = i < 32 && (node.op->shape_only >> i & 1);
      if (!shape_only || input.shape() != forward.outputs[0].shape ||
          (input.node != forward.id && !input.shape().is_known()))
        return true;
      shapes_.push_back({node.id, i});
    }
    return known->second = false;
  }

  const Graph& graph_;
  const std::vector<NodeRoles> roles_;
  Edits edits_;
  // By op and last input.
  std::map<const Op*, std::map<Output, std::vector<int32_t>, OutputOrder>> forward_;
  std::map<int32_t, bool> needs_;  // by node: depends on the forward node under consideration
  std::vector<Reader> shapes_;
};

}  // namespace

Edits join(const CallGraph& call) { return Joining(call).run(); }

}  // namespace troupe
