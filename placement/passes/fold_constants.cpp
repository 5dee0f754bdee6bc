// fold_constants: a node whose inputs are constants becomes a Constant of the same name. Left
// alone: nodes on devices other than a CPU, whose kernels may give other bits; nodes that run after
// others; nodes with several outputs, or with shapes that only a step knows; nodes that cannot be
// evaluated, so that an op that fails does so in the step, as its node.
//
// Constants travel with the graph and stay in memory. So a new constant may be as large as the
// constants it replaces, whose bytes are credited to one reader each; a larger one draws on two
// allowances. The growth of a graph is bounded, whatever it contains.
#include <algorithm>

#include "graph/find_output.hpp"
#include "graph/made_nodes.hpp"
#include "graph/op.hpp"
#include "graph/op_properties.hpp"
#include "placement/passes/on_cpu.hpp"
#include "placement/passes/passes.hpp"

namespace troupe {
namespace {

constexpr int64_t kNodeGrowthMax = 16 << 10;  // bytes of a constant beyond its inputs
constexpr int64_t kGrowthMax = 1 << 20;       // of all constants together

class Folding {
 public:
  Folding(const CallGraph& call, const Evaluate& evaluate)
      : graph_(*call.graph),
        evaluate_(evaluate),
        constant_(graph_.registry().find(constant_node({}).op)),
        roles_(roles_of(call)),
        values_(graph_.nodes().size()),
        credit_(graph_.nodes().size()),
        edits_(call) {}

  Edits run() {
    if (constant_)
      for (const auto& node : graph_.nodes()) visit(*node);
    return std::move(edits_);
  }

 private:
  void visit(const Node& node) {
    const auto id = static_cast<size_t>(node.id);
    if (!roles_[id].runs || roles_[id].fed || !node.control_inputs.empty()) return;
    if (const auto constant = properties_of(node).constant) {
      values_[id] = constant(node);
      credit_[id] = values_[id].byte_size();
      return;
    }
    if (!may_fold(node)) return;
    const TensorType& type = node.outputs[0];
    const int64_t bytes = type.shape.size() * size_of(type.dtype);
    const int64_t growth = std::max<int64_t>(0, bytes - credit(node));
    if (growth > std::min(kNodeGrowthMax, kGrowthMax - grown_)) return;
    std::vector<Tensor> inputs;
    for (const Output& input : node.inputs)
      inputs.push_back(values_[static_cast<size_t>(input.node)]);
    const std::vector<Tensor> outputs = evaluate_(node, inputs);
    if (outputs.size() != 1 || outputs[0].dtype() != type.dtype || outputs[0].shape() != type.shape)
      return;
    for (const Output& input : node.inputs) credit_[static_cast<size_t>(input.node)] = 0;
    grown_ += growth;
    values_[id] = outputs[0];
    credit_[id] = bytes;
    edits_.change(node, *constant_, {}, constant_node(outputs[0]).attrs);
  }

  // A branch with a known predicate must stay: it says which nodes of its frame are dead.
  bool may_fold(const Node& node) const {
    return !node.op->stateful && node.op->control == ControlKind::none &&
           node.outputs.size() == 1 && node.outputs[0].shape.is_known() &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](const Output& input) {
                         return values_[static_cast<size_t>(input.node)].defined();
                       }) &&
           is_on_cpu(node);
  }

  int64_t credit(const Node& node) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Output& input = node.inputs[i];
      if (find_output(node.inputs, input) - node.inputs.begin() == static_cast<ptrdiff_t>(i))
        bytes += credit_[static_cast<size_t>(input.node)];
    }
    return bytes;
  }

  const Graph& graph_;
  const Evaluate& evaluate_;
  const Op* const constant_;
  const std::vector<NodeRoles> roles_;
  std::vector<Tensor> values_;   // by node, for nodes with one known output
  std::vector<int64_t> credit_;  // by node: bytes that no reader has used yet
  int64_t grown_ = 0;
  Edits edits_;
};

}  // namespace

Edits fold_constants(const CallGraph& call, const Evaluate& evaluate) {
  return Folding(call, evaluate).run();
}

}  // namespace troupe
