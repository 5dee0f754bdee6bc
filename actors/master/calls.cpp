// Prepares calls, installs their parts as MasterState orders, and reports on them.
#include "actors/master/calls.hpp"

#include <set>

#include "actors/async/deadline.hpp"
#include "actors/master/gate.hpp"
#include "actors/observe/handed_out.hpp"
#include "actors/async/joined.hpp"
#include "actors/cluster/survey.hpp"
#include "devices/failure.hpp"
#include "graph/dot.hpp"
#include "graph/prune.hpp"
#include "placement/passes/passes.hpp"
#include "graph/task_of.hpp"
#include "placement/call_graph.hpp"
#include "troupe/device.hpp"

namespace troupe {
namespace {

std::string label(const Output& output) { return detail::concat(output.name(), ":", output.index); }

// The replicas that take a training step with the call: those of its nodes with state and no
// output, which run for their effect.
std::vector<int64_t> replicas_of(const Graph& graph, const std::vector<int32_t>& nodes) {
  std::set<int64_t> replicas;
  for (int32_t id : nodes) {
    const Node& node = graph.node(id);
    if (!node.op->stateful || !node.op->outputs.empty()) continue;
    auto it = node.attrs.find("replica");
    if (it == node.attrs.end()) continue;
    if (const auto* replica = std::get_if<int64_t>(&it->second)) replicas.insert(*replica);
  }
  return {replicas.begin(), replicas.end()};
}

}  // namespace

Calls::Calls(Process& process, Members& members, const caf::actor& asker, Graph& graph,
             uint64_t session, std::function<void(int64_t)> settled)
    : process_(process),
      members_(members),
      asker_(asker),
      graph_(graph),
      session_(session),
      settled_(std::move(settled)),
      remote_(asker, session),
      state_(session, process.task()) {}

void Calls::set_ensure(Ensure ensure) {
  std::lock_guard lock(mutex_);
  ensure_ = std::move(ensure);
}

// Preparing

int64_t Calls::prepare(const std::vector<Output>& fetches, const std::vector<Output>& feeds) {
  const auto known = [&]() -> int64_t {  // requires mutex_; 0: not prepared yet
    if (stopped_) throw Error(Errc::cancelled, kSessionClosed);
    auto it = ids_.find({fetches, feeds});
    return it != ids_.end() && calls_.at(it->second).code == Errc::ok ? it->second : 0;
  };
  {
    std::lock_guard lock(mutex_);
    if (const int64_t id = known()) return id;
  }
  check(fetches, feeds);
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
    id = ids_.try_emplace({fetches, feeds}, static_cast<int64_t>(ids_.size()) + 1).first->second;
    made.id = id;
    made.version = ++versions_;
    Call& call = calls_[id];
    forget_local(call, later);
    call.prepared = std::make_shared<PreparedCall>(std::move(made));
    call.code = Errc::ok;
    call.error.clear();
    ensure = ensure_;
    hand_out_graph();
    if (!ensure) install(call, later);
  }
  tell(later);
  if (ensure)
    ensure(std::move(nodes),
           [this, id](Errc code, const std::string& text) { ensured(id, code, text); });
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

void Calls::check(const std::vector<Output>& fetches, const std::vector<Output>& feeds) const {
  const auto ours = [this](const Output& o, const char* what, const char* verb) {
    if (!o.defined() || o.graph != &graph_)
      throw Error(Errc::invalid_argument, "a ", what, " is not an output of this session's graph; ",
                  verb, " what a function of this graph returned");
  };
  for (const Output& o : fetches) ours(o, "fetch", "fetch");
  for (const Output& o : feeds) {
    ours(o, "feed", "feed");
    if (graph_.node(o.node).outputs.empty())
      throw Error(Errc::invalid_argument, troupe::describe(graph_.node(o.node)),
                  " has no output that could be fed; feed one of the nodes it reads");
  }
}

PreparedCall Calls::make(const std::vector<Output>& fetches, const std::vector<Output>& feeds,
                         bool passes) {
  PreparedCall call;
  call.asked = prune(graph_, fetches, feeds);
  const Placement placement = place(graph_, call.asked, wishes());
  CallGraph made = make_call_graph(graph_, fetches, feeds, &placement, passes, {}, &call.absorbed);
  call.nodes = prune(*made.graph, made.fetches, made.feeds);
  call.placement = placement_in(made, call.nodes, placement);
  call.partitions = partition(*made.graph, made.fetches, made.feeds, call.placement.devices,
                              process_.cpu().name());
  call.replicas = replicas_of(*made.graph, call.nodes);
  call.fetches = std::move(made.fetches);
  call.feeds = std::move(made.feeds);
  call.graph = std::move(made.graph);
  return call;
}

PlacementOptions Calls::wishes() const {
  PlacementOptions out;
  for (const auto& device : process_.devices()) out.devices.push_back(device->name());
  out.default_device = process_.cpu().name();
  bool worker = false;
  for (const auto& [task, devices] : members_.devices()) {
    out.devices.insert(out.devices.end(), devices.begin(), devices.end());
    if (!worker && task.rfind("/job:worker/", 0) == 0 && !devices.empty()) {
      out.default_device = devices.front();
      worker = true;
    }
  }
  out.has_kernel = [this](const Node& node, const std::string& device) {
    if (const Device* ours = process_.device(device)) return ours->kernel_for(node) != nullptr;
    const DeviceKind kind = *parse_device_name(device).kind;
    if (kind != DeviceKind::shadow) return find_kernel(node, kind) != nullptr;
    const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
    return kernel && kernel->run && !node.op->value_shapes;
  };
  return out;
}

void Calls::ensured(int64_t id, Errc code, const std::string& text) {
  Later later;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    Call& call = calls_.at(id);
    if (code == Errc::ok)
      install(call, later);
    else
      fail(call, code, text, later);
  }
  tell(later);
}

Calls::Standing Calls::standing(int64_t id) const {
  std::lock_guard lock(mutex_);
  const Call& call = calls_.at(id);
  return {call.prepared, call.live, call.code, call.error};
}

std::string Calls::missing_tasks(int64_t id) const {
  std::lock_guard lock(mutex_);
  return joined(state_.missing_tasks(id));
}

std::string Calls::broken_text(int64_t id) const {
  std::lock_guard lock(mutex_);
  return calls_.at(id).broken;
}

void Calls::wait_ready(int64_t id, std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    const Call& call = calls_.at(id);
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

void Calls::install(const Call& call, Later& later) {
  const PreparedCall& prepared = *call.prepared;
  ExecutableState e;
  e.call = prepared.id;
  for (const Output& o : prepared.fetches) e.fetches.push_back(label(o));
  for (const Output& o : prepared.feeds) e.feeds.push_back(label(o));
  e.placement = prepared.placement.devices;
  e.tasks[process_.task()] = InstallPhase::waiting;
  for (const Partition& p : prepared.partitions) {
    e.tasks[task_of(p.device)] = InstallPhase::waiting;
    for (const Edge& edge : p.edges)
      if (edge.source == p.device && task_of(edge.source) != task_of(edge.destination))
        e.edges.push_back({edge.id, task_of(edge.source), task_of(edge.destination)});
  }
  carry_out(state_.add(std::move(e)), later);
}

void Calls::on_event(const std::function<MasterOrders(MasterState&)>& event) {
  Later later;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    carry_out(event(state_), later);
  }
  tell(later);
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

void Calls::carry_out(MasterOrders orders, Later& later) {
  for (size_t i = 0; i < orders.size(); ++i) {
    const MasterOrders follow = carry_out(MasterOrder(orders[i]), calls_.at(orders[i].call), later);
    orders.insert(orders.end(), follow.begin(), follow.end());
  }
}

MasterOrders Calls::carry_out(const MasterOrder& order, Call& call, Later& later) {
  const bool here = order.task == process_.task();
  switch (order.kind) {
    case MasterOrder::install:
      return here ? install_here(call) : install_there(call, order);
    case MasterOrder::connect:
      if (here) return connect_here(call);
      connect_there(order);
      break;
    case MasterOrder::uninstall:
      if (here)
        forget_local(call, later);
      else
        uninstall_there(order);
      break;
    case MasterOrder::ready:
      call.live = make_live(call);
      call.broken.clear();
      ++changes_;
      if (call.live) later.settled.push_back(order.call);  // else waiting runs go on waiting
      break;
    case MasterOrder::broken:
      if (call.broken != order.text && state_.missing_tasks(order.call).empty())
        process_.log()->warn("a call is to be installed anew: call={} reason={}", order.call,
                             order.text);
      call.broken = order.text;
      call.live = nullptr;
      ++changes_;
      break;
    case MasterOrder::failed:
      fail(call, order.code, order.text, later);
      break;
  }
  return {};
}

void Calls::fail(Call& call, Errc code, const std::string& text, Later& later) {
  call.code = code;
  call.error = text;
  call.live = nullptr;
  ++changes_;
  later.settled.push_back(call.prepared->id);
}

void Calls::forget_local(Call& call, Later& later) {
  if (!call.local) return;
  add(call.sent, call.local->edge_counts());
  later.old.push_back(std::move(call.local));
  call.local = nullptr;
}

MasterOrders Calls::install_here(Call& call) {
  const ExecutableState& e = state_.calls().at(call.prepared->id);
  std::vector<Partition> mine;
  for (const Partition& p : call.prepared->partitions)
    if (process_.device(p.device)) mine.push_back(p);
  const Failure failure = failure_of([&] {  // may run kernels of the program's own ops
    call.local =
        Installation::make(session_, e.executable, call.prepared->graph, std::move(mine), process_);
    for (const auto& [node, op] : replaced_) call.local->become(node, op);
  });
  if (failure.code != Errc::ok)
    return state_.install_failed(process_.task(), e.executable, failure.code, failure.text);
  return state_.installed(process_.task(), e.executable, call.local->receivers());
}

MasterOrders Calls::connect_here(Call& call) {
  const ExecutableState& e = state_.calls().at(call.prepared->id);
  for (const ExecutableEdge& edge : e.edges) {
    if (edge.source_task != process_.task()) continue;
    const auto receiver = caf::actor_cast<OpHandle>(
        process_.remote(edge.destination_task, e.receivers.at(edge.edge)));
    if (!receiver) return {};  // the member is gone; its member_down() is under way
    call.local->connect(edge.edge, receiver);
  }
  return state_.connected(process_.task(), e.executable);
}

MasterOrders Calls::install_there(const Call& call, const MasterOrder& order) {
  const Members::Present member = members_.find(order.task);
  if (!member.agent) return {};
  const auto done = [this, order](Errc code, const std::string& text,
                                  const RemoteParts::Receivers& receivers) {
    on_event([&](MasterState& s) {
      return code == Errc::ok ? s.installed(order.task, order.executable, receivers)
                              : s.install_failed(order.task, order.executable, code, text);
    });
  };
  try {
    remote_.install(member, state_.calls().at(order.call), *call.prepared->graph,
                    call.prepared->version, process_.cpu().name(), done);
  } catch (const Error& error) {  // the graph is too large to send
    return state_.install_failed(order.task, order.executable, error.code(), error.what());
  }
  return {};
}

void Calls::connect_there(const MasterOrder& order) {
  const Members::Present member = members_.find(order.task);
  if (!member.agent) return;
  remote_.connect(member, state_.calls().at(order.call),
                  [this, order](Errc code, const std::string& text, const RemoteParts::Receivers&) {
                    on_event([&](MasterState& s) {
                      return code == Errc::ok
                                 ? s.connected(order.task, order.executable)
                                 : s.install_failed(order.task, order.executable, code, text);
                    });
                  });
}

void Calls::uninstall_there(const MasterOrder& order) {
  const Members::Present member = members_.find(order.task);
  if (!member.agent) return;
  remote_.uninstall(member, order.executable,
                    [this, order](Errc, const std::string&, const EdgeCounts& sent) {
                      std::lock_guard lock(mutex_);
                      add(calls_.at(order.call).sent, from_message(sent));
                    });
}

std::shared_ptr<const LiveCall> Calls::make_live(const Call& call) const {
  const ExecutableState& e = state_.calls().at(call.prepared->id);
  auto live = std::make_shared<LiveCall>();
  live->executable = e.executable;
  live->local = call.local;
  live->client = call.local->executor_on(process_.cpu().name());
  for (const Output& o : call.prepared->feeds)
    live->feed_slots.push_back(live->client ? live->client->program().source_slot(o.node, o.index)
                                            : kNone);
  for (const Output& o : call.prepared->fetches)
    live->fetch_slots.push_back(live->client ? live->client->program().slot_of(o.node, o.index)
                                             : kNone);
  for (const auto& [task, phase] : e.tasks) {
    if (task == process_.task()) continue;
    const Members::Present member = members_.find(task);
    caf::actor door = member.agent ? process_.remote(task, member.agent.id()) : caf::actor{};
    if (!door) return nullptr;  // the member is gone; its member_down() is under way
    live->remotes.emplace_back(task, door);
  }
  return live;
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
  for (auto& [id, call] : calls_) {
    call.live = nullptr;
    ++changes_;
    forget_local(call, later);
  }
  process_.resources().forget(session_);
}

// Reports

std::vector<PlacedNode> Calls::placement(int64_t id) const {
  const auto call = standing(id).prepared;
  std::vector<PlacedNode> out;
  for (int32_t n : call->nodes) {
    const Node& node = call->graph->node(n);
    out.push_back(
        {node.name, node.op->name, call->placement.devices.at(n), call->placement.reasons.at(n)});
  }
  return out;
}

std::vector<CutEdge> Calls::cut_edges(int64_t id) const {
  std::shared_ptr<const PreparedCall> call;
  std::map<int32_t, EdgeCount> sent;
  uint32_t executable = 0;
  {
    std::lock_guard lock(mutex_);
    const Call& known = calls_.at(id);
    call = known.prepared;
    sent = known.sent;
    if (known.local) add(sent, known.local->edge_counts());
    if (auto it = state_.calls().find(id); it != state_.calls().end())
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
  return state_.to_text();
}

}  // namespace troupe
