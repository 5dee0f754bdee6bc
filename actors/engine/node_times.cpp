// NodeTimes: a moving average for each plain node, where there are lanes.
#include "actors/engine/node_times.hpp"

#include <algorithm>

namespace troupe {
namespace {

// True for an output so large that no cheap kernel writes it.
bool writes_much(const Node& node) {
  if (node.op->aliases) return false;
  for (const TensorType& type : node.outputs)
    if (type.shape.is_known() && type.shape.size() > kManyBytes / size_of(type.dtype)) return true;
  return false;
}

}  // namespace

NodeTimes::NodeTimes(Program& program, int lanes, NodeCosts* known, DeviceKind device)
    : program_(program), costs_(program.nodes.firing.size()) {
  for (uint32_t i = 0; i < costs_.size(); ++i) {
    FiringNode& firing = program.nodes.firing[i];
    if (firing.kind != NodeKind::plain) continue;
    const Node& node = *firing.view()->node;
    const bool large = known_flops(node) > kManyFlops || writes_much(node);
    firing.costly.store(large, std::memory_order_relaxed);
    if (lanes <= 1) continue;  // no step is timed
    NodeCosts::Cost& cost = known ? known->of(node, device) : own_.emplace_back(0);
    const int64_t ns = cost.load(std::memory_order_relaxed);
    if (ns) firing.costly.store(ns > kCostlyFrom.count(), std::memory_order_relaxed);
    costs_[i] = &cost;
  }
}

void NodeTimes::sampled(uint32_t i, int64_t took_ns) {
  NodeCosts::Cost* const cost = costs_[i];
  if (!cost) return;
  // A moving average over samples; the first one counts whole.
  const int64_t old = cost->load(std::memory_order_relaxed);
  const int64_t now = old == 0 ? took_ns : old + (took_ns - old) / 4;
  cost->store(std::max<int64_t>(now, 1), std::memory_order_relaxed);
  // Other threads read `costly`, so it is written only when it changes.
  std::atomic<bool>& costly = program_.nodes.firing[i].costly;
  if (const bool is = now > kCostlyFrom.count(); is != costly.load(std::memory_order_relaxed))
    costly.store(is, std::memory_order_relaxed);
}

int64_t NodeTimes::of(uint32_t i) const {
  return costs_[i] ? costs_[i]->load(std::memory_order_relaxed) : 0;
}

std::map<int32_t, int64_t> NodeTimes::by_graph_node() const {
  std::map<int32_t, int64_t> out;
  for (uint32_t i = 0; i < costs_.size(); ++i)
    if (const int64_t ns = of(i); ns > 0) out[program_.nodes.firing[i].view()->node->id] = ns;
  return out;
}

}  // namespace troupe
