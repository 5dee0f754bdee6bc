// Finds pushes and writes that a call could do twice in a step.
#include "training/group/once_a_step.hpp"

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "graph/op.hpp"
#include "nn/loss_scale.hpp"
#include "troupe/op.hpp"
#include "graph/parameter_nodes.hpp"

namespace troupe {
namespace {

// True if the node is inside a frame of that kind.
bool inside(const Graph& graph, const Node& node, ControlKind kind) {
  for (int32_t frame = node.frame; frame >= 0; frame = graph.node(frame).frame)
    if (graph.node(frame).op->control == kind) return true;
  return false;
}

// The value outside of the frames that captured `value`.
Output source_of(Output value) {
  while (value.graph->node(value.node).op->control == ControlKind::capture)
    value = value.graph->node(value.node).inputs[0];
  return value;
}

// The branches that the node is in: (selector, its output, number of branches) -> branch.
using Choices = std::map<std::tuple<int32_t, int32_t, int64_t>, int64_t>;
Choices branches_of(const Graph& graph, const Node& node) {
  Choices out;
  for (int32_t frame = node.frame; frame >= 0; frame = graph.node(frame).frame)
    if (const Node& opener = graph.node(frame); opener.op->control == ControlKind::branch) {
      const Output selector = source_of(opener.inputs[0]);
      out[{selector.node, selector.index, properties_of(opener).frame.branches(opener)}] =
          properties_of(opener).frame.index(opener);
    }
  return out;
}

bool may_both_run(const Graph& graph, const Node& a, const Node& b) {
  const auto taken = branches_of(graph, a);
  for (const auto& [choice, number] : branches_of(graph, b))
    if (const auto other = taken.find(choice); other != taken.end() && other->second != number)
      return false;
  return true;
}

// The name without the number that distinguishes nodes of the same name.
std::string_view unnumbered(std::string_view name) {
  for (;;) {
    const size_t end = name.find_last_not_of("0123456789");
    if (end == name.npos || end + 1 == name.size() || name[end] != '_') return name;
    name = name.substr(0, end);
  }
}

// True if the copy's name is that of `node`, of the body of `function`: its name inside the body,
// in the scope of a call.
bool named_like_copy(const Node& copy, const Node& function, const Node& node) {
  const std::string_view all = unnumbered(node.name), part = unnumbered(copy.name);
  if (all.substr(0, function.name.size() + 1) != function.name + "/") return false;
  const std::string wanted = function.name.substr(function.name.rfind('/') + 1) +
                             std::string(all.substr(function.name.size()));
  return part == wanted || part.ends_with("/" + wanted);
}

// The function whose body the node was copied from; nullptr if there is none. Nodes of one line of
// the program, in several bodies or outside of any, are distinguished by name.
const Node* function_of(const Graph& graph, const Node& copy) {
  for (const auto& node : graph.nodes()) {
    if (node->op != copy.op || node->line != copy.line || node->file != copy.file) continue;
    for (int32_t frame = node->frame; frame >= 0; frame = graph.node(frame).frame)
      if (const Node& function = graph.node(frame);
          function.op->control == ControlKind::function && named_like_copy(copy, function, *node))
        return &function;
  }
  return nullptr;
}

std::string remedy(const Graph& graph, const Node& first, const Node& second) {
  if (parameter_name(second) == kLossScaleParameter)
    return "each is the moving scale of a loss (scaled_gradients(), minimize_scaled()), and all "
           "losses share it: scale the sum of the losses, give all but one a LossScale whose "
           "growth_interval is 0, which stays, or fetch one of the two in a run";
  const Node* function = function_of(graph, second);
  if (function && function_of(graph, first) == function)
    return detail::concat("both are of calls of the function ", function->name,
                          ", whose body pushes: let it return the gradient, and push the sum of "
                          "what its calls return, once");
  return "push the sum of the gradients, or fetch one of the two in a run";
}

Error pushed_twice(const Graph& graph, const Node& first, const Node& second) {
  return Error(Errc::invalid_argument, "parameter ", parameter_name(second),
               " is pushed to twice in a step of replica ", second.replica, ", by the ",
               describe(first), " and by the ", describe(second),
               ", but its shards count one push a step; ", remedy(graph, first, second));
}

}  // namespace

bool in_function(const Graph& graph, const Node& node) {
  return inside(graph, node, ControlKind::function);
}

void check_once_a_step(const Graph& graph, const std::vector<int32_t>& nodes) {
  std::map<std::pair<std::string, int64_t>, std::vector<const Node*>>
      pushes;  // by name and replica
  for (const int32_t id : nodes) {
    const Node& node = graph.node(id);
    if (!pushes_gradient(node) && !writes_values(node)) continue;
    const auto& name = parameter_name(node);
    if (inside(graph, node, ControlKind::loop))
      throw Error(Errc::invalid_argument, "the ", describe(node),
                  " is inside a loop, but parameter ", name,
                  pushes_gradient(node) ? " is pushed to" : " is written",
                  " once a step; let the loop return the value, and ",
                  pushes_gradient(node) ? "push" : "write", " it then");
    if (!pushes_gradient(node)) continue;
    auto& same = pushes[{name, node.replica}];
    for (const Node* other : same)
      if (may_both_run(graph, *other, node)) throw pushed_twice(graph, *other, node);
    same.push_back(&node);
  }
}

}  // namespace troupe
