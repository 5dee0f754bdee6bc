// Calls::become(): replaces the kernel of a node in all calls, and makes calls again in which a
// pass has absorbed the node.
#include <algorithm>
#include <condition_variable>

#include "actors/master/calls.hpp"
#include "placement/passes/passes.hpp"
#include "graph/task_of.hpp"

namespace troupe {

bool Calls::here(const PreparedCall& call) const {
  return std::all_of(call.partitions.begin(), call.partitions.end(),
                     [&](const Partition& part) { return process_.device(part.device); });
}

// The other processes in which a call runs the node. Requires: mutex_.
std::set<std::string> Calls::tasks_of_node(const std::string& node) const {
  std::set<std::string> tasks;
  for (const auto& [id, call] : calls_) {
    if (here(*call.prepared)) continue;
    for (const auto& [n, device] : call.prepared->placement.devices)
      if (does_work_of(call.prepared->graph->node(n), node)) tasks.insert(task_of(device));
  }
  tasks.erase(process_.task());
  return tasks;
}

namespace {

// True if a pass removed or replaced this node, or merged another node into it, so a kernel other
// than the node's own runs.
bool concerns(const Absorbed& absorbed, int32_t node) {
  return absorbed.node == node || absorbed.into == node;
}

std::string says(const Graph& graph, const Absorbed& absorbed) {
  std::string what = detail::concat("the pass ", absorbed.pass, " has left out the ",
                                    troupe::describe(graph.node(absorbed.node)));
  if (absorbed.into == absorbed.node)
    what = detail::concat("the pass ", absorbed.pass, " has made the ",
                          troupe::describe(graph.node(absorbed.node)), " a ", absorbed.op->name);
  else if (absorbed.into >= 0)
    what += detail::concat("; the ", troupe::describe(graph.node(absorbed.into)),
                           " has its work, as ", absorbed.op->name);
  return what;
}

}  // namespace

bool Calls::absorbs_replaced(const PreparedCall& call) const {
  if (replaced_.empty()) return false;
  return std::any_of(call.absorbed.begin(), call.absorbed.end(), [&](const Absorbed& a) {
    return replaced_.count(graph_.node(a.node).name) ||
           (a.into >= 0 && replaced_.count(graph_.node(a.into).name));
  });
}

// Applies the passes, unless they absorb a node that was replaced.
PreparedCall Calls::make_with_replaced(const std::vector<Output>& fetches,
                                       const std::vector<Output>& feeds) {
  PreparedCall made = make(fetches, feeds, process_.passes());
  const auto absorbs = [&] {
    std::lock_guard lock(mutex_);
    return absorbs_replaced(made);
  };
  return absorbs() ? make(fetches, feeds, false) : std::move(made);
}

// The calls that must be made again before they can run another kernel of the node. Throws:
// Error(invalid_argument) if such a call runs in other processes as well, where its steps would be
// lost.
std::vector<Calls::Remade> Calls::absorbing(int32_t node) const {
  std::vector<Remade> out;
  for (const auto& [asked, id] : ids_) {
    const Call& call = calls_.at(id);
    if (call.code != Errc::ok) continue;
    const auto& absorbed = call.prepared->absorbed;
    const auto found = std::find_if(absorbed.begin(), absorbed.end(),
                                    [&](const Absorbed& a) { return concerns(a, node); });
    if (found == absorbed.end()) continue;
    if (!here(*call.prepared))
      throw Error(Errc::invalid_argument, "node ", graph_.node(node).name,
                  " cannot be replaced in a call that is prepared and runs in several processes: ",
                  says(graph_, *found),
                  "; replace it before the call is prepared, or prepare it in a session without "
                  "passes (ProcessOptions::passes)");
    out.push_back({id, asked.first, asked.second, {}});
  }
  return out;
}

std::vector<std::shared_ptr<Installation>> Calls::installed_here(
    const std::vector<Remade>& without) const {
  std::vector<std::shared_ptr<Installation>> out;
  for (const auto& [id, call] : calls_)
    if (call.local && std::none_of(without.begin(), without.end(),
                                   [id = id](const Remade& remade) { return remade.id == id; }))
      out.push_back(call.local);
  return out;
}

// Throws: Error(invalid_argument) if `op` does not fit the node as it runs without passes.
void Calls::make_again(Remade& remade, int32_t node, const std::shared_ptr<const Op>& op) {
  PreparedCall& call = remade.call = make(remade.fetches, remade.feeds, false);
  call.id = remade.id;
  const Node* now = call.graph->find(graph_.node(node).name);
  const auto placed = now ? call.placement.devices.find(now->id) : call.placement.devices.end();
  if (placed == call.placement.devices.end()) return;  // it is fed, or not needed
  const Device& device = *process_.device(placed->second);
  const NodeView code = NodeView::make(*now, *device.kernel_for(*now));
  with_op(code, now->name, op, {device.kind(), device.name()});
}

// Running steps finish where they began: in the earlier installation, if the call had to be made
// again.
int64_t Calls::become(const std::string& node, const std::shared_ptr<const Op>& op, bool by_name) {
  const Node* named = graph_.find(node);
  std::set<std::string> tasks;
  std::vector<Remade> remade;
  std::vector<std::shared_ptr<Installation>> local;
  Later later;
  for (bool looked_at_all = false; !looked_at_all;) {
    std::unique_lock lock(mutex_);
    const int64_t seen = versions_;
    tasks = tasks_of_node(node);
    if (!by_name && !tasks.empty())
      throw Error(Errc::invalid_argument, "node ", node, " runs in ", *tasks.begin(),
                  ", and a function does not travel; name an op that is registered there, too");
    if (named) remade = absorbing(named->id);
    local = installed_here(remade);
    lock.unlock();
    // Check everything before anything changes, and without the lock, so that no thread waits for
    // the checks.
    for (Remade& call : remade) make_again(call, named->id, op);
    for (const auto& installation : local) installation->check(node, op);
    lock.lock();
    looked_at_all = versions_ == seen;  // false: a call was prepared meanwhile and not checked
    if (!looked_at_all) continue;
    replaced_[node] = op;
    if (by_name) remote_.remember(node, op->name);
    for (Remade& made : remade) {
      Call& call = calls_.at(made.id);
      made.call.version = ++versions_;
      forget_local(call, later);
      call.live = nullptr;
      ++changes_;
      call.prepared = std::make_shared<PreparedCall>(std::move(made.call));
      if (state_.calls().count(made.id)) install(call, later);  // otherwise ensured() installs it
    }
    local = installed_here({});
  }
  tell(later);
  int64_t executors = 0;
  for (const auto& installation : local) executors += installation->become(node, op);
  become_there(node, op->name, tasks, executors);
  return executors;
}

// The same in other processes; adds their numbers of executors to `executors`.
void Calls::become_there(const std::string& node, const std::string& op,
                         const std::set<std::string>& tasks, int64_t& executors) {
  struct Open {
    std::mutex mutex;  // guards the rest
    size_t waiting = 0;
    int64_t executors = 0;
    Errc code = Errc::ok;
    std::string text;
    std::condition_variable changed;
  };
  auto open = std::make_shared<Open>();
  std::vector<Members::Present> asked;
  for (const std::string& task : tasks)  // a task that is away learns of it when it installs its
                                         // parts again
    if (Members::Present member = members_.find(task); member.agent) asked.push_back(member);
  open->waiting = asked.size();
  for (const Members::Present& member : asked)
    remote_.become(
        member, node, op,
        [open, task = member.member.name()](Errc code, const std::string& text, const Became& m) {
          std::lock_guard lock(open->mutex);
          open->executors += m.executors;
          if (code != Errc::ok && code != Errc::peer_lost && open->code == Errc::ok)
            open->code = code, open->text = detail::concat(task, ": ", text);
          --open->waiting;
          open->changed.notify_all();
        });
  std::unique_lock lock(open->mutex);
  if (!open->changed.wait_for(lock, 2 * kAgentTimeout, [&] { return open->waiting == 0; }))
    throw Error(Errc::timeout, "node ", node, " was replaced, but not every process has said so");
  if (open->code != Errc::ok) throw Error(open->code, open->text);
  executors += open->executors;
}

std::vector<OpHandle> Calls::op_actors(const std::string& node) const {
  std::vector<OpHandle> out;
  std::lock_guard lock(mutex_);
  for (const auto& [id, call] : calls_)
    if (call.local)
      for (const auto& executor : call.local->executors())
        if (OpHandle actor = executor->op_actor(node)) out.push_back(std::move(actor));
  return out;
}

}  // namespace troupe
