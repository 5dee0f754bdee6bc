// Prepares calls and has them installed, replaces kernels in them, and reports on them.
#include "actors/master/calls.hpp"

#include <algorithm>

#include "actors/async/deadline.hpp"
#include "actors/async/joined.hpp"
#include "actors/cluster/survey.hpp"
#include "actors/master/gate.hpp"
#include "actors/observe/handed_out.hpp"
#include "graph/device_name.hpp"
#include "graph/dot.hpp"
#include "graph/op.hpp"
#include "graph/task_of.hpp"

namespace troupe {
namespace {

// Nodes may be placed on the devices of this process and of all members so far.
// A task that the graph names, and that has never been there, has the devices of the one that
// stands for it.
PlacementOptions placement_options(const Process& process, const Members& members,
                                   const Places& places) {
  PlacementOptions out;
  for (const auto& device : process.devices()) out.devices.push_back(device->name());
  out.default_device = process.cpu().name();
  bool worker = false;
  const auto known = members.devices();
  for (const auto& [named, task] : places)
    if (const auto at = known.find(task); at != known.end() && !known.count(named))
      for (const std::string& device : at->second)
        out.devices.push_back(named + device.substr(task.size()));
  for (const auto& [task, devices] : known) {
    out.devices.insert(out.devices.end(), devices.begin(), devices.end());
    if (!worker && task.rfind("/job:worker/", 0) == 0 && !devices.empty()) {
      out.default_device = devices.front();
      worker = true;
    }
  }
  out.has_kernel = [&process](const Node& node, const std::string& device) {
    if (const Device* ours = process.device(device)) return ours->kernel_for(node) != nullptr;
    const DeviceKind kind = *parse_device_name(device).kind;
    if (kind != DeviceKind::shadow) return find_kernel(node, kind) != nullptr;
    const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
    return kernel && kernel->run && !node.op->value_shapes;
  };
  return out;
}

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

Calls::Calls(Process& process, Members& members, const Asker& asker, Graph& graph, uint64_t session,
             std::function<void(int64_t)> settled)
    : process_(process),
      members_(members),
      asker_(asker),
      graph_(graph),
      session_(session),
      settled_(std::move(settled)),
      installer_(process, members, asker, session,
                 [this](const std::function<void(Later&)>& work) { change(work); }) {}

void Calls::set_ensure(Ensure ensure) {
  std::lock_guard lock(mutex_);
  ensure_ = std::move(ensure);
}

// Preparing

int64_t Calls::prepare(const std::vector<Output>& fetches, const std::vector<Output>& feeds) {
  const auto known = [&]() -> int64_t {  // requires mutex_; 0: not prepared yet
    if (stopped_) throw Error(Errc::cancelled, kSessionClosed);
    auto it = ids_.find({fetches, feeds});
    return it != ids_.end() && installer_.calls().at(it->second).code == Errc::ok ? it->second : 0;
  };
  {
    std::lock_guard lock(mutex_);
    if (const int64_t id = known()) return id;
  }
  check_outputs(graph_, fetches, feeds);
  PreparedCall made = make_with_replaced(fetches, feeds);
  std::vector<int32_t> nodes = made.asked;
  Later later;
  Ensure ensure;
  int64_t id = 0;
  {
    std::unique_lock lock(mutex_);
    while (absorbs_replaced(made)) {  // a node was replaced just now
      lock.unlock();
      made = make_with_replaced(fetches, feeds);
      lock.lock();
    }
    if ((id = known())) return id;  // another thread was faster
    if (moves(made, places_)) made = moved_call(made, places_, process_.cpu().name());
    id = ids_.try_emplace({fetches, feeds}, static_cast<int64_t>(ids_.size()) + 1).first->second;
    made.id = id;
    made.version = ++versions_;
    installer_.put(std::make_shared<PreparedCall>(std::move(made)), later);
    ensure = ensure_;
    hand_out_graph();
    if (!ensure) installer_.install(id, later);
  }
  tell(later);
  if (ensure)
    ensure(std::move(nodes), [this, id](Errc code, const std::string& text) {
      change([&](Later& then) {
        if (code == Errc::ok)
          installer_.install(id, then);
        else
          installer_.fail(id, code, text, then);
      });
    });
  return id;
}

void Calls::hand_out_graph() const {
  if (!graph_wanted()) return;
  const std::string path = path_of_session(graph_wanted(), session_);
  if (path.empty()) return;
  std::string text = to_text(graph_);
  for (const auto& [asked, id] : ids_) text += call_line(asked.first, asked.second);
  if (const std::string error = hand_out(path, text); !error.empty())
    process_.log()->warn("the graph could not be written: file={} error={}", path, error);
}

PreparedCall Calls::make(const std::vector<Output>& fetches, const std::vector<Output>& feeds,
                         bool passes) const {
  Places places;
  {
    std::lock_guard lock(mutex_);
    places = places_;
  }
  return prepare_call(graph_, fetches, feeds, placement_options(process_, members_, places),
                      process_.cpu().name(), passes);
}

void Calls::set_places(Places places, const std::set<std::string>& leaving) {
  change([&](Later& later) {
    places_ = std::move(places);
    for (const auto& [asked, id] : ids_) {
      const InstalledCall& call = installer_.calls().at(id);
      if (call.code != Errc::ok || !moves(*call.prepared, places_) || stays(id, leaving)) continue;
      installer_.move(moved_call(*call.prepared, places_, process_.cpu().name()), later);
    }
  });
}

bool Calls::stays(int64_t id, const std::set<std::string>& leaving) const {
  const InstalledCall& call = installer_.calls().at(id);
  if (!call.prepared->replicas.empty()) return false;
  return std::all_of(call.prepared->partitions.begin(), call.prepared->partitions.end(),
                     [&](const Partition& part) {
                       const std::string task = task_of(part.device);
                       return installer_.state().is_up(task) && !leaving.count(task);
                     });
}

bool Calls::trains_on(const std::string& task) const {
  std::lock_guard lock(mutex_);
  for (const auto& [id, call] : installer_.calls()) {
    const std::vector<Partition>& parts = call.prepared->partitions;
    if (!call.prepared->replicas.empty() &&
        std::any_of(parts.begin(), parts.end(),
                    [&](const Partition& part) { return task_of(part.device) == task; }))
      return true;
  }
  return false;
}

Calls::Standing Calls::standing(int64_t id) const {
  std::lock_guard lock(mutex_);
  const InstalledCall& call = installer_.calls().at(id);
  return {call.prepared, call.live, call.code, call.error};
}

std::string Calls::missing_tasks(int64_t id) const {
  std::lock_guard lock(mutex_);
  return joined(installer_.state().missing_tasks(id));
}

std::vector<std::string> Calls::awaited_tasks(int64_t id) const {
  std::lock_guard lock(mutex_);
  return installer_.state().awaited_tasks(id);
}

std::string Calls::broken_text(int64_t id) const {
  std::lock_guard lock(mutex_);
  return installer_.calls().at(id).broken;
}

void Calls::wait_ready(int64_t id, std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    const InstalledCall& call = installer_.calls().at(id);
    changed_.wait_until(lock, deadline_after(timeout),
                        [&] { return call.live || call.code != Errc::ok || stopped_; });
    if (stopped_) throw Error(Errc::cancelled, kSessionClosed);
    if (call.live) return;
    if (call.code != Errc::ok) throw Error(call.code, call.error);
  }
  const std::string missing = missing_tasks(id);
  if (missing.empty()) {
    const std::string why = broken_text(id);
    throw Error(Errc::timeout, "the call was not installed within ", timeout.count(), " ms; ",
                why.empty() ? "its processes are busy or frozen" : why,
                ": look at their logs, and prepare it again");
  }
  throw Error(Errc::peer_lost, "waited ", timeout.count(), " ms for ", missing,
              "; start it, or give more time");
}

// Installing

// Does nothing once the session closes.
void Calls::change(const std::function<void(Later&)>& work) {
  Later later;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    work(later);
  }
  tell(later);
}

void Calls::on_event(const std::function<MasterOrders(MasterState&)>& event) {
  change([&](Later& later) { installer_.carry_out(event(installer_.state()), later); });
}

void Calls::tell(const Later& later) {
  changed_.notify_all();
  for (int64_t id : later.settled) settled_(id);
}

void Calls::member_up(const Member& member) {
  on_event([&](MasterState& s) { return s.member_up(member.name(), member.incarnation); });
}
void Calls::member_down(const Member& member, const std::string& reason) {
  on_event([&](MasterState& s) { return s.member_down(member.name(), reason); });
}
void Calls::missing(const std::string& task, uint32_t executable) {
  on_event([&](MasterState& s) { return s.missing(task, executable); });
}
void Calls::retry() {
  on_event([](MasterState& s) { return s.retry(); });
}

// Kernels

bool Calls::absorbs_replaced(const PreparedCall& call) const {
  return std::any_of(call.absorbed.begin(), call.absorbed.end(), [&](const Absorbed& a) {
    return installer_.is_replaced(graph_.node(a.node).name) ||
           (a.into >= 0 && installer_.is_replaced(graph_.node(a.into).name));
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

void Calls::refuse_absorbed(int32_t node) const {
  for (const auto& [asked, id] : ids_) {
    const InstalledCall& call = installer_.calls().at(id);
    if (call.code != Errc::ok) continue;
    const auto& absorbed = call.prepared->absorbed;
    const auto found = std::find_if(absorbed.begin(), absorbed.end(),
                                    [&](const Absorbed& a) { return concerns(a, node); });
    if (found != absorbed.end())
      throw Error(Errc::invalid_argument, "node ", graph_.node(node).name,
                  " cannot be replaced in a call that is prepared: ", says(graph_, *found),
                  "; replace it before the call is prepared, or prepare it in a session without "
                  "passes (ProcessOptions::passes)");
  }
}

int64_t Calls::become(const std::string& node, const std::shared_ptr<const Op>& op, bool by_name) {
  const Node* named = graph_.find(node);
  std::set<std::string> tasks;
  const auto installed = [&] {  // Requires: mutex_.
    tasks = installer_.tasks_of_node(node);
    if (!by_name && !tasks.empty())
      throw Error(Errc::invalid_argument, "node ", node, " runs in ", *tasks.begin(),
                  ", and a function does not travel; name an op that is registered there, too");
    if (named) refuse_absorbed(named->id);
    return installer_.local();
  };
  std::unique_lock lock(mutex_);
  std::vector<std::shared_ptr<Installation>> local = installed();
  lock.unlock();
  // Checks before anything changes, and without the lock, so that no thread waits for the checks.
  for (const auto& installation : local) installation->check(node, op);
  lock.lock();
  local = installed();  // with calls that have been prepared meanwhile
  installer_.replace(node, op, by_name);
  lock.unlock();
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
    remote().become(
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
  for (const auto& [id, call] : installer_.calls())
    if (call.local)
      for (const auto& executor : call.local->executors())
        if (OpHandle actor = executor->op_actor(node)) out.push_back(std::move(actor));
  return out;
}

// Ending

void Calls::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void Calls::drop() {
  Later later;  // destroyed without the mutex
  std::lock_guard lock(mutex_);
  installer_.drop(later);
  process_.resources().forget(session_);
}

// Reports

std::vector<PlacedNode> Calls::placement(int64_t id) const {
  const auto call = standing(id).prepared;
  std::vector<PlacedNode> out;
  for (int32_t n : call->nodes) {
    const Node& node = call->graph->node(n);
    const std::string& device = call->placement.devices.at(n);
    const auto named = call->named.find(n);
    const bool moved = named != call->named.end() && named->second != device;
    out.push_back({node.name, node.op->name, device,
                   call->placement.reasons.at(n) + (moved ? ", which has moved" : "")});
  }
  return out;
}

std::vector<CutEdge> Calls::cut_edges(int64_t id) const {
  std::shared_ptr<const PreparedCall> call;
  std::map<int32_t, EdgeCount> sent;
  uint32_t executable = 0;
  {
    std::lock_guard lock(mutex_);
    const InstalledCall& known = installer_.calls().at(id);
    call = known.prepared;
    sent = known.sent;
    if (known.local) add(sent, known.local->edge_counts());
    if (auto it = installer_.state().calls().find(id); it != installer_.state().calls().end())
      executable = it->second.executable;
  }
  add(sent, survey_edges(process_, asker_, members_.agents(), session_, executable));
  std::vector<CutEdge> out;
  for (const Partition& p : call->partitions)
    for (const Edge& edge : p.edges) {
      if (edge.source != p.device) continue;
      const std::string what = edge.control ? " has run" : detail::concat(":", edge.output);
      const EdgeCount& count = sent[edge.id];
      out.push_back({call->graph->node(edge.node).name + what, edge.source, edge.destination,
                     count.transfers, count.bytes});
    }
  return out;
}

std::string Calls::dot(int64_t id) const {
  const Standing now = standing(id);
  std::map<int32_t, std::string> measured;  // kernel costs measured in this process
  if (now.live)
    for (const auto& executor : now.live->local->executors())
      for (const auto& [node, ns] : executor->costs())
        measured[node] = detail::concat(ns / 1000, ".", ns / 100 % 10, " us");
  return to_dot(*now.prepared->graph, now.prepared->placement.devices, measured);
}

std::string Calls::describe() const {
  std::lock_guard lock(mutex_);
  return installer_.state().to_text();
}

}  // namespace troupe
