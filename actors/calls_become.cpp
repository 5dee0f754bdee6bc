// Implements Calls::become() of actors/calls.hpp.
#include <algorithm>
#include <condition_variable>

#include "actors/calls.hpp"
#include "graph/passes.hpp"

namespace troupe {

// Other processes, in which some call runs the node. Requires: mutex_.
std::set<std::string> Calls::tasks_of_node(const std::string& node) const {
  std::set<std::string> tasks;
  for (const auto& [id, call] : calls_)
    for (const auto& [n, device] : call.prepared->placement.devices)
      if (does_work_of(call.prepared->graph->node(n), node))
        tasks.insert(device.substr(0, device.find("/device:")));
  tasks.erase(process_.task());
  return tasks;
}

int64_t Calls::become(const std::string& node, const std::shared_ptr<const Op>& op, bool by_name) {
  std::set<std::string> tasks;
  int64_t stages = 0;
  {
    std::lock_guard lock(mutex_);
    tasks = tasks_of_node(node);
    if (!by_name && !tasks.empty())
      throw Error(Errc::invalid_argument, "node ", node, " runs in ", *tasks.begin(),
                  ", and a function does not travel; name an op that is registered there, too");
    std::vector<Installation*> local;
    for (auto& [id, call] : calls_)
      if (call.local) local.push_back(call.local.get());
    for (Installation* installation : local)  // what is refused is refused before anything changes
      for (const auto& stage : installation->stages()) stage->replacement(node, op);
    for (Installation* installation : local) stages += installation->become(node, op);
    replaced_[node] = op;
    if (by_name) remote_.remember(node, op->name);
  }
  struct Open {
    std::mutex mutex;  // guards the rest
    size_t waiting = 0;
    int64_t stages = 0;
    Errc code = Errc::ok;
    std::string text;
    std::condition_variable changed;
  };
  auto open = std::make_shared<Open>();
  std::vector<Members::Present> asked;
  for (const std::string& task : tasks)  // who is away hears of it when it installs its parts again
    if (Members::Present member = members_.find(task); member.agent) asked.push_back(member);
  open->waiting = asked.size();
  for (const Members::Present& member : asked)
    remote_.become(
        member, node, op->name,
        [open, task = member.member.name()](Errc code, const std::string& text, const Became& m) {
          std::lock_guard lock(open->mutex);
          open->stages += m.stages;
          if (code != Errc::ok && code != Errc::peer_lost && open->code == Errc::ok)
            open->code = code, open->text = detail::concat(task, ": ", text);
          --open->waiting;
          open->changed.notify_all();
        });
  std::unique_lock lock(open->mutex);
  if (!open->changed.wait_for(lock, 2 * kAgentTimeout, [&] { return open->waiting == 0; }))
    throw Error(Errc::timeout, "node ", node, " was replaced, but not every process has said so");
  if (open->code != Errc::ok) throw Error(open->code, open->text);
  return stages + open->stages;
}

std::vector<caf::actor> Calls::op_actors(const std::string& node) const {
  std::vector<caf::actor> out;
  std::lock_guard lock(mutex_);
  for (const auto& [id, call] : calls_)
    if (call.local)
      for (const auto& stage : call.local->stages())
        for (uint32_t i = 0; i < stage->node_count(); ++i)
          if (stage->name_of(i) == node) out.push_back(stage->op_actor(i));
  return out;
}

}  // namespace troupe
