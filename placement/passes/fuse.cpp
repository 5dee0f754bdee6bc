// fuse: element-wise nodes of one shape, frame and device that read each other become one Fused
// node (ops/elementwise/fused.cpp), which takes each block of elements through all of them. Their
// other inputs may be any values that broadcast to the shape; values that other nodes read are
// outputs of the new node. If all readers of a matrix product or a convolution are in the group,
// that node joins it, and the group processes each part of the product while it is in cache. A
// group without such a node may be joined by one reduction of one of its values: the reduction gets
// each part of the value when that has been computed, so the value need not be written if it has no
// other reader.
//
// It knows no op by name: a member of a group has a Kernel::elements, the node before the group
// Kernel::finishes, the node after it Kernel::takes. The new node has name, device and origin of
// the last member; or of the reduction, if that is fetched or is the only value read from the
// group. A group takes in no more nodes once another node has read it, so that it never waits for a
// node that waits for it. The program's text has all names and origins.
//
// Left alone: a node with no node to join; nodes that are fed, awaited or a partner, or run after
// another node; fetched nodes, except the last one of a group and the reduction after it.
#include <algorithm>
#include <map>
#include <set>

#include "graph/attr_text.hpp"
#include "graph/find_output.hpp"
#include "graph/made_nodes.hpp"
#include "graph/op.hpp"
#include "graph/op_properties.hpp"
#include "placement/passes/on_cpu.hpp"
#include "placement/passes/passes.hpp"

namespace troupe {
namespace {

// A larger node would be compiled and retried as a whole, and far fewer nodes fill a cache.
constexpr size_t kNodesMax = 48, kInputsMax = 24, kOutputsMax = 8;
constexpr std::string_view kInputName = "in.";

class Fusing {
 public:
  explicit Fusing(const CallGraph& call)
      : graph_(*call.graph),
        fused_(graph_.registry().find(fused_node({}, {}, {}).op)),
        roles_(roles_of(call)),
        group_of_(graph_.nodes().size(), -1),
        readers_(graph_.nodes().size(), kNobody),
        more_(graph_.nodes().size()),
        edits_(call) {}

  Edits run() {
    if (!fused_ || !graph_.registry().find(placeholder_node({}).op)) return std::move(edits_);
    for (const auto& node : graph_.nodes()) visit(*node);
    note_readers();
    for (size_t g = 0; g < groups_.size(); ++g)
      if (!groups_[g].nodes.empty()) groups_[g].producer = producer_of(static_cast<int32_t>(g));
    for (const auto& node : graph_.nodes()) attach(*node);
    note_readers();
    for (size_t g = 0; g < groups_.size(); ++g)
      if (!groups_[g].nodes.empty()) emit(static_cast<int32_t>(g));
    return std::move(edits_);
  }

 private:
  struct Group {
    std::vector<int32_t> nodes;  // by number; empty: merged into another group
    bool open = true;
    const Node* producer = nullptr;  // the node before it
    const Node* taker = nullptr;     // the one after it
  };
  // The group that reads a node: one; kNobody; or kOthers for several groups or nodes in no group.
  static constexpr int32_t kNobody = -1, kOthers = -2;

  const NodeRoles& roles(const Node& node) const { return roles_[static_cast<size_t>(node.id)]; }
  int32_t& group_of(int32_t id) { return group_of_[static_cast<size_t>(id)]; }
  Group& group(int32_t g) { return groups_[static_cast<size_t>(g)]; }

  // The node's kernel, if it may be a part of a fused node; else nullptr.
  const Kernel* kernel_of(const Node& node) const {
    const NodeRoles& r = roles(node);
    const bool apart = !r.runs || r.fed || r.awaited || r.partner || !node.control_inputs.empty();
    if (apart || node.op->stateful || node.outputs.empty() || node.inputs.empty() ||
        !is_on_cpu(node))
      return nullptr;
    return find_kernel(node, DeviceKind::cpu);
  }

  bool is_element_wise(const Node& node) const {
    const Kernel* kernel = kernel_of(node);
    return kernel && kernel->elements && node.outputs.size() == 1 &&
           node.inputs.size() <= ElementRun::kInputsMax && !node.name.starts_with(kInputName);
  }

  static bool together(const Node& a, const Node& b) {
    return a.frame == b.frame && a.device == b.device && a.colocate_with == b.colocate_with;
  }

  bool may_join(const Node& node, const Group& to, size_t nodes) const {
    const Node& other = graph_.node(to.nodes[0]);
    return to.open && together(node, other) && nodes + to.nodes.size() <= kNodesMax &&
           node.outputs[0].shape == other.outputs[0].shape;
  }

  void visit(const Node& node) {
    std::vector<int32_t> read;  // groups
    for (const Output& input : node.inputs)
      if (const int32_t g = group_of(input.node);
          g >= 0 && std::find(read.begin(), read.end(), g) == read.end())
        read.push_back(g);
    std::vector<int32_t> joined;
    if (is_element_wise(node)) {
      std::vector<int32_t> nodes = {node.id};
      for (int32_t g : read) {
        if (!may_join(node, group(g), nodes.size())) continue;
        nodes.insert(nodes.end(), group(g).nodes.begin(), group(g).nodes.end());
        joined.push_back(g);
      }
      std::sort(nodes.begin(), nodes.end());
      const auto now = static_cast<int32_t>(groups_.size());
      for (int32_t id : nodes) group_of(id) = now;
      for (int32_t g : joined) group(g).nodes.clear();
      groups_.push_back({.nodes = std::move(nodes), .open = !roles(node).fetched});
    }
    for (int32_t g : read)
      if (std::find(joined.begin(), joined.end(), g) == joined.end()) group(g).open = false;
  }

  void note_readers() {
    std::fill(readers_.begin(), readers_.end(), kNobody);
    for (const auto& node : graph_.nodes()) {
      if (!roles(*node).runs) continue;
      const int32_t g = group_of(node->id);
      for (const Output& input : node->inputs) {
        if (input.index > 0) {
          more_[static_cast<size_t>(input.node)].insert(input.index);
          continue;
        }
        int32_t& readers = readers_[static_cast<size_t>(input.node)];
        readers = g >= 0 && (readers == kNobody || readers == g) ? g : kOthers;
      }
    }
  }

  // A reduction of a value of a group becomes its taker, if it is the first one.
  void attach(const Node& node) {
    if (node.inputs.size() != 1) return;
    const int32_t g = group_of(node.inputs[0].node);
    if (g < 0 || group_of(node.id) >= 0 || group(g).producer || group(g).taker) return;
    const Kernel* kernel = kernel_of(node);
    const Node& last = graph_.node(group(g).nodes.back());
    if (!kernel || !kernel->takes || kernel->elements || node.outputs.size() != 1 ||
        !together(node, last) || node.name.starts_with(kInputName) ||
        (roles(node).fetched && roles(last).fetched))
      return;
    group(g).taker = &node;
    group_of(node.id) = g;
  }

  // The new node for a group.
  struct Plan {
    const Node* place = nullptr;  // the node that becomes the new one
    const Node* producer = nullptr;
    std::vector<Output> inputs;
    std::vector<Output> outputs;
  };

  static void add_once(std::vector<Output>& list, const Output& output) {
    if (find_output(list, output) == list.end()) list.push_back(output);
  }

  // The node whose product the group continues: the latest one, if there are several.
  const Node* producer_of(int32_t g) {
    const Node& last = graph_.node(group(g).nodes.back());
    const Node* found = nullptr;
    for (int32_t id : group(g).nodes)
      for (const Output& input : graph_.node(id).inputs) {
        const Node& node = graph_.node(input.node);
        if (group_of(node.id) == g || readers_[static_cast<size_t>(node.id)] != g) continue;
        const Kernel* kernel = kernel_of(node);
        if (kernel && kernel->finishes && !kernel->elements && !roles(node).fetched &&
            together(node, last) && node.outputs[0] == last.outputs[0] &&
            !node.name.starts_with(kInputName) && (!found || found->id < node.id) &&
            (node.outputs.size() == 1 || !waits_for(g, node)))
          found = &node;
      }
    return found;
  }

  // True if an input of the group depends on the node in another way than through the group, or if
  // the search for it takes too long.
  bool waits_for(int32_t g, const Node& node) {
    constexpr size_t kLookedAtMax = 200;
    std::vector<int32_t> open = group(g).nodes;
    std::set<int32_t> seen(open.begin(), open.end());
    while (!open.empty()) {
      const Node& reader = graph_.node(open.back());
      open.pop_back();
      const auto visit = [&](int32_t id) {
        if (id > node.id && seen.insert(id).second) open.push_back(id);
      };
      for (const Output& input : reader.inputs) {
        if (input.node == node.id && (input.index > 0 || group_of(reader.id) != g)) return true;
        visit(input.node);
      }
      for (int32_t id : reader.control_inputs) {
        if (id == node.id) return true;
        visit(id);
      }
      if (reader.frame >= 0) visit(reader.frame);
      if (seen.size() > kLookedAtMax) return true;
    }
    return false;
  }

  Output value_of(const Node& node) const { return {const_cast<Graph*>(&graph_), node.id, 0}; }

  Plan plan_of(int32_t g, const Node* producer) {
    const Node& last = graph_.node(group(g).nodes.back());
    const Node* taker = group(g).taker;
    Plan plan{.place = &last, .producer = producer};
    if (producer)
      for (const Output& input : producer->inputs) add_once(plan.inputs, input);
    for (int32_t id : group(g).nodes)
      for (const Output& input : graph_.node(id).inputs)
        if (group_of(input.node) != g && (!producer || input.node != producer->id))
          add_once(plan.inputs, input);
    for (auto id = group(g).nodes.rbegin(); id != group(g).nodes.rend(); ++id)
      if (const Node& node = graph_.node(*id);
          is_read_outside(node, g) || (!taker && *id == last.id))
        plan.outputs.push_back(value_of(node));
    if (plan.outputs.size() > 1) std::reverse(plan.outputs.begin() + 1, plan.outputs.end());
    if (!plan.outputs.empty()) plan.place = &graph_.node(plan.outputs[0].node);
    if (producer)
      for (int32_t index : more_[static_cast<size_t>(producer->id)])
        plan.outputs.push_back({const_cast<Graph*>(&graph_), producer->id, index});
    if (taker && (roles(*taker).fetched || plan.outputs.empty())) {
      plan.place = taker;
      plan.outputs.insert(plan.outputs.begin(), value_of(*taker));
    } else if (taker) {
      plan.outputs.push_back(value_of(*taker));
    }
    if (!producer) put_memory_first(g, plan);
    return plan;
  }

  bool is_read_outside(const Node& node, int32_t g) const {
    return readers_[static_cast<size_t>(node.id)] != g || roles(node).fetched;
  }

  // Puts an input first whose memory output 0 may take over.
  void put_memory_first(int32_t g, Plan& plan) const {
    const TensorType type = {plan.outputs[0].dtype(), plan.outputs[0].shape()};
    const auto over = std::find_if(plan.inputs.begin(), plan.inputs.end(), [&](const Output& in) {
      const Node& from = graph_.node(in.node);
      return from.outputs[static_cast<size_t>(in.index)] == type &&
             readers_[static_cast<size_t>(in.node)] == g && from.outputs.size() == 1;
    });
    if (over != plan.inputs.end()) std::rotate(plan.inputs.begin(), over, over + 1);
  }

  void emit(int32_t g) {
    Plan plan = plan_of(g, group(g).producer);
    if (plan.inputs.size() > kInputsMax && plan.producer) plan = plan_of(g, nullptr);
    if (plan.inputs.size() > kInputsMax || plan.outputs.size() > kOutputsMax) return;
    std::vector<int32_t> nodes = group(g).nodes;
    if (plan.producer) nodes.insert(nodes.begin(), plan.producer->id);
    if (group(g).taker) nodes.push_back(group(g).taker->id);
    if (nodes.size() < 2) return;
    std::map<Output, std::string, OutputOrder> names;
    std::string text = "troupe graph 1\n";
    for (const Output& input : plan.inputs) {
      const std::string name = detail::concat(kInputName, names.size());
      names[input] = name;
      const NodeSpec made = placeholder_node({input.dtype(), input.shape()});
      text += line_of(name, made.op, {}, made.attrs) + "\n";
    }
    std::vector<int64_t> wanted(plan.outputs.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = graph_.node(nodes[i]);
      text += line_of(node, names) + "\n";
      names[value_of(node)] = node.name;
      const auto at = find_output(plan.outputs, value_of(node));
      if (at != plan.outputs.end())
        wanted[static_cast<size_t>(at - plan.outputs.begin())] =
            static_cast<int64_t>(plan.inputs.size() + i);
    }
    for (size_t i = 0; i < wanted.size(); ++i)  // the producer's other outputs come after the nodes
      if (const int32_t index = plan.outputs[i].index; index > 0)
        wanted[i] = static_cast<int64_t>(plan.inputs.size() + nodes.size()) + index - 1;
    NodeSpec made = fused_node(std::move(plan.inputs), std::move(text), std::move(wanted));
    edits_.fuse(*plan.place, *fused_, std::move(made.inputs), std::move(made.attrs), plan.outputs);
  }

  static std::string line_of(const std::string& name, std::string_view op,
                             const std::string& inputs, const Attrs& attrs) {
    std::string line = name + " = ";
    line.append(op).append("(").append(inputs).append(")");
    for (const auto& [attr, value] : attrs) line += " " + attr + "=" + exact_text(value);
    return line;
  }

  static std::string line_of(const Node& node,
                             const std::map<Output, std::string, OutputOrder>& names) {
    std::string inputs;
    for (const Output& input : node.inputs)
      inputs += (inputs.empty() ? "" : ", ") + names.at(input);
    std::string line = line_of(node.name, node.op->name, inputs, node.attrs);
    if (!node.file.empty()) line += detail::concat(" at ", quoted(node.file), ":", node.line);
    return line;
  }

  const Graph& graph_;
  const Op* const fused_;
  const std::vector<NodeRoles> roles_;
  std::vector<int32_t> group_of_;        // by node; -1: none
  std::vector<int32_t> readers_;         // by node: the group that reads its output 0
  std::vector<std::set<int32_t>> more_;  // by node: its other outputs that are read
  std::vector<Group> groups_;
  Edits edits_;
};

}  // namespace

Edits fuse(const CallGraph& call) { return Fusing(call).run(); }

bool does_work_of(const Node& node, const std::string& name) {
  const auto program = properties_of(node).program;
  return program ? program(node).find("\n" + name + " = ") != std::string::npos : node.name == name;
}

}  // namespace troupe
