// fuse: element-wise nodes of one shape, frame and device that read each other become one Fused
// node (ops/fused.cpp), which takes each block of elements through all of them. What one of them
// reads beside that may be anything that broadcasts to the shape; what others read of them are
// outputs of the new node. If all that reads a matrix product or a convolution is in the group,
// that node joins it, and the group goes on with each part of the product while it is in cache.
//
// It knows no op by name: what may be in a group has a Kernel::elements, what may stand before it
// Kernel::finishes. The new node stands where the last one of the group stood, with its name,
// device and origin. So that this is after all that the group reads and before all that reads it, a
// group takes in no more nodes once another node has read it. The text of the program has all names
// and origins.
//
// Left alone: a node that has nobody to join; what is fed, awaited or a partner, or runs after
// another node; what is fetched, but for the last one of a group.
#include <algorithm>
#include <map>

#include "graph/attr_text.hpp"
#include "graph/passes.hpp"
#include "troupe/device_name.hpp"

namespace troupe {
namespace {

// A larger node would be compiled and retried as a whole; and far fewer fill a cache.
constexpr size_t kNodesMax = 48, kInputsMax = 24, kOutputsMax = 8;
constexpr std::string_view kInputName = "in.";

class Fusing {
 public:
  explicit Fusing(const CallGraph& call)
      : graph_(*call.graph),
        fused_(graph_.registry().find("Fused")),
        roles_(roles_of(call)),
        group_of_(graph_.nodes().size(), -1),
        readers_(graph_.nodes().size(), kNobody),
        edits_(call) {}

  Edits run() {
    if (!fused_ || !graph_.registry().find("Placeholder")) return std::move(edits_);
    for (const auto& node : graph_.nodes()) visit(*node);
    for (const auto& node : graph_.nodes()) note_reader(*node);
    for (size_t g = 0; g < groups_.size(); ++g)
      if (!groups_[g].nodes.empty()) emit(static_cast<int32_t>(g));
    return std::move(edits_);
  }

 private:
  struct Group {
    std::vector<int32_t> nodes;  // by number; empty: has become part of another group
    bool open = true;
  };
  // Which group reads a node: one, none, or several or what is in no group.
  static constexpr int32_t kNobody = -1, kOthers = -2;

  const NodeRoles& roles(const Node& node) const { return roles_[static_cast<size_t>(node.id)]; }
  int32_t& group_of(int32_t id) { return group_of_[static_cast<size_t>(id)]; }
  Group& group(int32_t g) { return groups_[static_cast<size_t>(g)]; }

  // Its kernel, if the node may be a part of a fused one.
  const Kernel* kernel_of(const Node& node) const {
    const NodeRoles& r = roles(node);
    const bool apart = !r.runs || r.fed || r.awaited || r.partner || !node.control_inputs.empty();
    if (apart || node.op->stateful || node.outputs.size() != 1 || node.inputs.empty() ||
        parse_device_name(node.device).kind.value_or(DeviceKind::cpu) != DeviceKind::cpu)
      return nullptr;
    return find_kernel(node, DeviceKind::cpu);
  }

  bool is_element_wise(const Node& node) const {
    const Kernel* kernel = kernel_of(node);
    return kernel && kernel->elements && node.inputs.size() <= ElementRun::kInputsMax &&
           !node.name.starts_with(kInputName);
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
      groups_.push_back({std::move(nodes), !roles(node).fetched});
    }
    for (int32_t g : read)
      if (std::find(joined.begin(), joined.end(), g) == joined.end()) group(g).open = false;
  }

  void note_reader(const Node& node) {
    if (!roles(node).runs) return;
    for (const Output& input : node.inputs) {
      int32_t& readers = readers_[static_cast<size_t>(input.node)];
      const int32_t g = group_of(node.id);
      readers = g >= 0 && (readers == kNobody || readers == g) ? g : kOthers;
    }
  }

  // What a group becomes.
  struct Plan {
    const Node* producer = nullptr;
    std::vector<Output> inputs;
    std::vector<Output> outputs;
  };

  static void add_once(std::vector<Output>& list, const Output& output) {
    if (std::find(list.begin(), list.end(), output) == list.end()) list.push_back(output);
  }

  // The node whose product the group goes on with: the latest one, if there are several.
  const Node* producer_of(int32_t g, const Node& last) {
    const Node* found = nullptr;
    for (int32_t id : group(g).nodes)
      for (const Output& input : graph_.node(id).inputs) {
        const Node& node = graph_.node(input.node);
        if (group_of(node.id) == g || readers_[static_cast<size_t>(node.id)] != g) continue;
        const Kernel* kernel = kernel_of(node);
        if (kernel && kernel->finishes && !kernel->elements && !roles(node).fetched &&
            together(node, last) && node.outputs == last.outputs &&
            !node.name.starts_with(kInputName) && (!found || found->id < node.id))
          found = &node;
      }
    return found;
  }

  Plan plan_of(int32_t g, const Node& last, const Node* producer) {
    Plan plan{.producer = producer};
    if (producer)
      for (const Output& input : producer->inputs) add_once(plan.inputs, input);
    for (int32_t id : group(g).nodes)
      for (const Output& input : graph_.node(id).inputs)
        if (group_of(input.node) != g && (!producer || input.node != producer->id))
          add_once(plan.inputs, input);
    // Output 0 may take over the memory of input 0.
    const auto over = std::find_if(plan.inputs.begin(), plan.inputs.end(), [&](const Output& in) {
      const Node& from = graph_.node(in.node);
      return from.outputs[static_cast<size_t>(in.index)] == last.outputs[0] &&
             readers_[static_cast<size_t>(in.node)] == g && from.outputs.size() == 1;
    });
    if (!producer && over != plan.inputs.end()) std::rotate(plan.inputs.begin(), over, over + 1);
    const auto value = [&](int32_t id) { return Output{const_cast<Graph*>(&graph_), id, 0}; };
    plan.outputs.push_back(value(last.id));
    for (int32_t id : group(g).nodes)
      if (id != last.id && readers_[static_cast<size_t>(id)] != g)
        plan.outputs.push_back(value(id));
    return plan;
  }

  void emit(int32_t g) {
    const Node& last = graph_.node(group(g).nodes.back());
    Plan plan = plan_of(g, last, producer_of(g, last));
    if (plan.inputs.size() > kInputsMax && plan.producer) plan = plan_of(g, last, nullptr);
    if (plan.inputs.size() > kInputsMax || plan.outputs.size() > kOutputsMax) return;
    if (group(g).nodes.size() < 2 && !plan.producer) return;
    std::vector<int32_t> nodes = group(g).nodes;
    if (plan.producer) nodes.insert(nodes.begin(), plan.producer->id);
    std::map<Output, std::string> names;
    std::string text = "troupe graph 1\n";
    for (const Output& input : plan.inputs) {
      const std::string name = detail::concat(kInputName, names.size());
      names[input] = name;
      text += detail::concat(name, " = Placeholder() dtype=", input.dtype(),
                             " shape=", exact_text(input.shape()), "\n");
    }
    std::vector<int64_t> wanted(plan.outputs.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = graph_.node(nodes[i]);
      text += line_of(node, names);
      const Output value{const_cast<Graph*>(&graph_), node.id, 0};
      names[value] = node.name;
      const auto at = std::find(plan.outputs.begin(), plan.outputs.end(), value);
      if (at != plan.outputs.end())
        wanted[static_cast<size_t>(at - plan.outputs.begin())] =
            static_cast<int64_t>(plan.inputs.size() + i);
    }
    edits_.fuse(last, *fused_, std::move(plan.inputs),
                {{"program", std::move(text)}, {"outputs", std::move(wanted)}}, plan.outputs);
  }

  static std::string line_of(const Node& node, const std::map<Output, std::string>& names) {
    std::string line = node.name + " = " + node.op->name + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i)
      line += (i ? ", " : "") + names.at(node.inputs[i]);
    line += ")";
    for (const auto& [name, value] : node.attrs) line += " " + name + "=" + exact_text(value);
    if (!node.file.empty()) line += detail::concat(" at ", quoted(node.file), ":", node.line);
    return line + "\n";
  }

  const Graph& graph_;
  const Op* const fused_;
  const std::vector<NodeRoles> roles_;
  std::vector<int32_t> group_of_;  // by node; -1: none
  std::vector<int32_t> readers_;   // by node: which group
  std::vector<Group> groups_;
  Edits edits_;
};

}  // namespace

Edits fuse(const CallGraph& call) { return Fusing(call).run(); }

}  // namespace troupe
