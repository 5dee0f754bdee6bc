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

// `devices`: of all tasks that have ever been there.
void want_all(const ReplicaPlaces::Named& named,
              const std::map<std::string, std::vector<std::string>>& devices,
              const std::string& stays) {
  for (const auto& [task, replicas] : named)
    if (devices.count(task) == 0)
      throw Error(Errc::invalid_argument, "replica ", *replicas.begin(), " is computed by ", task,
                  ", which is not in the cluster, and moves to no other worker, because of ", stays,
                  "; start that worker before the training, or place the towers on workers that ",
                  "are there");
}

ReplicaActions see_workers(Master& master, ReplicaPlaces& places, ReplicaPlaces::Millis now) {
  std::set<std::string> wanted;  // devices, without their tasks
  for (const auto& [task, devices] : master.members().devices())
    if (places.is_named(task)) wanted.merge(kinds_of(task, devices));
  std::set<std::string> present, unfit, leaving = master.process().departures().leaving();
  for (const auto& [task, member] : master.members().present()) {
    const std::set<std::string> has = kinds_of(task, member.devices);
    present.insert(task);
    if (!std::includes(has.begin(), has.end(), wanted.begin(), wanted.end())) unfit.insert(task);
  }
  return places.see(std::move(present), std::move(leaving), now, std::move(unfit));
}

void take_places(Master& master, const ReplicaPlaces& places, const ReplicaActions& actions) {
  if (!actions.moves.empty()) master.calls().set_places(places.places(), places.leaving());
  for (const ReplicaActions::Move& move : actions.moves)
    master.process().log()->info("replicas move: named={} from={} to={} reason={}", move.named,
                                 move.from, move.to, move.why);
  for (const std::string& task : places.leaving())
    if (!places.is_wanted(task)) master.process().departures().let_go(task);
}

ReplicaPlaces first_places(Master& master, const std::string& stays,
                           const std::vector<const Tower*>& towers,
                           ReplicaPlaces::Millis move_after, ReplicaPlaces::Millis now,
                           const std::function<void(const std::string&)>& tell) {
  if (!master.process().mesh()) return {};
  const ReplicaPlaces::Named named = named_tasks(towers);
  if (!stays.empty()) {
    want_all(named, master.members().devices(), stays);
    master.calls().set_places({}, {});  // an earlier training may have left some
    return {};
  }
  ReplicaPlaces places(named, move_after);
  const ReplicaActions actions = see_workers(master, places, now);
  if (actions.moves.empty()) master.calls().set_places({}, places.leaving());
  take_places(master, places, actions);
  for (const ReplicaActions::Move& move : actions.moves) tell(to_string(move));
  return places;
}

}  // namespace troupe
