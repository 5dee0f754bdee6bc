// PassThroughNodes: a node passes through if all its readers wait for the branch that it is in.
#include "actors/engine/program/pass_through.hpp"
#include "graph/op.hpp"

#include <algorithm>

namespace troupe {

PassThroughNodes::PassThroughNodes(const Graph& graph, const Partition& partition,
                                   const Device& device)
    : graph_(graph), parts_(partition.nodes) {
  std::vector<bool> merged(parts_.size());  // a Merge looks which of its inputs are there
  for (const PartNode& part : parts_)
    if (part.kind == PartKind::op && op(part).control == ControlKind::merge)
      for (const PartInput& input : part.inputs) merged[static_cast<size_t>(input.node)] = true;
  through_.resize(parts_.size());
  is_.resize(parts_.size());
  for (size_t p = 0; p < parts_.size(); ++p)
    if (!merged[p] && may_be(parts_[p], device)) add(p);
}

size_t PassThroughNodes::source(size_t part) const {
  while (is_[part] && !parts_[part].inputs.empty())
    part = static_cast<size_t>(parts_[part].inputs[0].node);
  return part;
}

std::vector<int32_t> PassThroughNodes::inherited(size_t part) const {
  std::vector<int32_t> out;
  if (!any_) return out;
  for (int32_t before : all_before(part))
    for (int32_t opener : through_[static_cast<size_t>(before)])
      if (!implied(part, opener)) out.push_back(opener);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool PassThroughNodes::opens(int32_t part) const {
  const PartNode& node = parts_[static_cast<size_t>(part)];
  return node.kind == PartKind::op && op(node).control == ControlKind::branch;
}

bool PassThroughNodes::may_be(const PartNode& part, const Device& device) const {
  if (part.kind != PartKind::op || part.controls.size() != 1 || !device.on_host()) return false;
  if (op(part).control == ControlKind::capture) return opens(part.controls[0]);
  const Kernel* kernel = device.kernel_for(graph_.node(part.node));
  return part.inputs.empty() && !op(part).stateful && op(part).control == ControlKind::none &&
         !op(part).outputs.empty() && kernel && kernel->run && opens(part.controls[0]);
}

void PassThroughNodes::add(size_t part) {
  is_[part] = any_ = true;
  through_[part] = inherited(part);
  through_[part].push_back(parts_[part].controls[0]);
}

std::vector<int32_t> PassThroughNodes::all_before(size_t part) const {
  std::vector<int32_t> out = parts_[part].controls;
  for (const PartInput& input : parts_[part].inputs) out.push_back(input.node);
  return out;
}

// True if another input of `part`, one that fires, is dead where `opener` is. One step back is
// enough for most nodes.
bool PassThroughNodes::implied(size_t part, int32_t opener) const {
  for (int32_t before : all_before(part)) {
    const auto b = static_cast<size_t>(before);
    if (before == opener) return true;
    if (is_[b] || parts_[b].kind != PartKind::op || op(parts_[b]).control == ControlKind::merge)
      continue;
    for (int32_t earlier : all_before(b)) {
      const std::vector<int32_t>& more = through_[static_cast<size_t>(earlier)];
      if (earlier == opener || std::find(more.begin(), more.end(), opener) != more.end())
        return true;
    }
  }
  return false;
}

}  // namespace troupe
