// Look-ups in a Program by the numbers of the graph, and the names of its nodes for error texts.
#include "actors/engine/program/program.hpp"

#include <algorithm>

namespace troupe {
namespace {

uint32_t find(const std::map<std::pair<int32_t, int32_t>, uint32_t>& slots, int32_t node,
              int32_t output) {
  const auto it = slots.find({node, output});
  return it == slots.end() ? kNone : it->second;
}

}  // namespace

uint32_t Program::slot_of(int32_t node, int32_t output) const {
  return find(interface.slots, node, output);
}

uint32_t Program::source_slot(int32_t node, int32_t output) const {
  return find(interface.sources, node, output);
}

uint32_t Program::receive_of(int32_t edge) const {
  const auto it =
      std::lower_bound(edges.receives.begin(), edges.receives.end(), edge,
                       [](const Receive& receive, int32_t wanted) { return receive.id < wanted; });
  if (it == edges.receives.end() || it->id != edge) return kNone;
  return static_cast<uint32_t>(it - edges.receives.begin());
}

std::string Program::place_of(uint32_t node) const {
  return detail::concat("node ", nodes.names[node], " on ", partition.device);
}

std::string Program::no_value(uint32_t kept_slot) const {
  for (const auto& [output, slot] : interface.slots)
    if (slot == kept_slot)
      return detail::concat("the ", describe(graph->node(output.first)), " on ", partition.device,
                            " has no value in this step: no branch that it depends on was taken; "
                            "merge it with what stands for it then");
  return "a fetched value is not there";
}

}  // namespace troupe
