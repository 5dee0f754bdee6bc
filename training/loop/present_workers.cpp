// Finds named tasks in graphs, and workers among members.
#include "training/loop/present_workers.hpp"

#include <algorithm>

#include "graph/device_name.hpp"
#include "graph/op_properties.hpp"
#include "graph/prune.hpp"

namespace troupe {
namespace {

std::set<std::string> kinds_of(const std::string& task, const std::vector<std::string>& devices) {
  std::set<std::string> out;
  for (const std::string& device : devices) out.insert(device.substr(task.size()));
  return out;
}

// True for an op that has state in its process between steps, as a queue has.
bool keeps_state(const Node& node) {
  const OpProperties& properties = properties_of(node);
  return node.op->stateful && properties.parameter.kind == ParameterUse::none &&
         !properties.input.source && !properties.random &&
         std::any_of(node.op->kernels.begin(), node.op->kernels.end(),
                     [](const Kernel& kernel) { return kernel.start != nullptr; });
}

}  // namespace

ReplicaPlaces::Named named_tasks(const std::vector<const Tower*>& towers) {
  ReplicaPlaces::Named out;
  std::set<std::string> kept;
  for (const Tower* tower : towers) {
    const Graph& graph = *tower->loss.graph;
    std::set<std::string> seen;
    for (const int32_t id : prune(graph, {tower->loss, tower->update}, tower->feeds)) {
      const Node& node = graph.node(id);
      const bool keeps = keeps_state(node);
      if (node.device.empty() || (!seen.insert(node.device).second && !keeps)) continue;
      const DeviceName name = parse_device_name(node.device);
      if (!name.job || !name.task || *name.job == "ps" || *name.job == "client") continue;
      const std::string task = to_string(DeviceName{.job = name.job, .task = name.task});
      out[task].insert(tower->replica);
      if (keeps) kept.insert(task);
    }
  }
  for (const std::string& task : kept) out.erase(task);
  return out;
}

ReplicaActions see_workers(Master& master, ReplicaPlaces& places, ReplicaPlaces::Millis now) {
  std::set<std::string> wanted;  // devices, without their tasks
  for (const auto& [task, devices] : master.members().devices())
    if (places.is_named(task)) wanted.merge(kinds_of(task, devices));
  std::set<std::string> present, leaving = master.process().departures().leaving();
  for (const auto& [task, member] : master.members().present()) {
    const std::set<std::string> has = kinds_of(task, member.devices);
    if (std::includes(has.begin(), has.end(), wanted.begin(), wanted.end())) present.insert(task);
  }
  return places.see(std::move(present), std::move(leaving), now);
}

void take_places(Master& master, const ReplicaPlaces& places, const ReplicaActions& actions) {
  if (!actions.moves.empty()) master.calls().set_places(places.places(), places.leaving());
  for (const ReplicaActions::Move& move : actions.moves)
    master.process().log()->info("replicas move: named={} from={} to={} reason={}", move.named,
                                 move.from, move.to, move.why);
  for (const std::string& task : places.leaving())
    if (!places.is_wanted(task)) master.process().departures().let_go(task);
}

ReplicaPlaces first_places(Master& master, bool stay, const std::vector<const Tower*>& towers,
                           ReplicaPlaces::Millis move_after, ReplicaPlaces::Millis now,
                           const std::function<void(const std::string&)>& tell) {
  if (!master.process().mesh() || stay) return {};
  ReplicaPlaces places(named_tasks(towers), move_after);
  const ReplicaActions actions = see_workers(master, places, now);
  take_places(master, places, actions);
  for (const ReplicaActions::Move& move : actions.moves) tell(to_string(move));
  return places;
}

}  // namespace troupe
