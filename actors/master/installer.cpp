// Carries out the orders of MasterState, here and through RemoteParts.
#include "actors/master/installer.hpp"

#include <algorithm>

#include "actors/cluster/survey.hpp"
#include "devices/failure.hpp"
#include "graph/base/mutant.hpp"
#include "graph/task_of.hpp"
#include "placement/passes/passes.hpp"

namespace troupe {
namespace {

std::string label(const Output& output) { return detail::concat(output.name(), ":", output.index); }

}  // namespace

Installer::Installer(Process& process, Members& members, const Asker& asker, uint64_t session,
                     Locked locked)
    : process_(process),
      members_(members),
      session_(session),
      locked_(std::move(locked)),
      remote_(asker, session),
      state_(session, process.task()) {}

void Installer::put(std::shared_ptr<const PreparedCall> prepared, Later& later) {
  InstalledCall& call = calls_[prepared->id];
  forget_local(call, later);
  call.prepared = std::move(prepared);
  call.code = Errc::ok;
  call.error.clear();
}

ExecutableState Installer::executable_of(const PreparedCall& prepared, const std::string& client) {
  ExecutableState e;
  e.call = prepared.id;
  for (const Output& o : prepared.fetches) e.fetches.push_back(label(o));
  for (const Output& o : prepared.feeds) e.feeds.push_back(label(o));
  e.placement = prepared.placement.devices;
  e.tasks[client] = InstallPhase::waiting;
  for (const Partition& p : prepared.partitions) {
    e.tasks[task_of(p.device)] = InstallPhase::waiting;
    for (const Edge& edge : p.edges)
      if (edge.source == p.device && task_of(edge.source) != task_of(edge.destination))
        e.edges.push_back({edge.id, task_of(edge.source), task_of(edge.destination)});
  }
  return e;
}

void Installer::install(int64_t id, Later& later) {
  carry_out(state_.add(executable_of(*calls_.at(id).prepared, process_.task())), later);
}

void Installer::move(PreparedCall moved, Later& later) {
  InstalledCall& call = calls_.at(moved.id);
  if (!mutant(Mutant::move_keeps_fence))
    fence_ = std::max(fence() + 1, state_.newest_incarnation() + 1);
  call.prepared = std::make_shared<const PreparedCall>(std::move(moved));
  if (!state_.calls().count(call.prepared->id)) return;
  call.broken = "it moves to other processes";
  no_longer_live(call);
  carry_out(state_.replace(executable_of(*call.prepared, process_.task())), later);
  call.sent.clear();  // edges have other numbers
}

void Installer::fail(int64_t id, Errc code, const std::string& text, Later& later) {
  InstalledCall& call = calls_.at(id);
  call.code = code;
  call.error = text;
  no_longer_live(call);
  later.settled.push_back(id);
}

void Installer::no_longer_live(InstalledCall& call) {
  call.live = nullptr;
  ++changes_;
}

void Installer::drop(Later& later) {
  for (auto& [id, call] : calls_) {
    no_longer_live(call);
    forget_local(call, later);
  }
}

void Installer::answered(const std::function<MasterOrders(MasterState&)>& event) {
  locked_([&](Later& later) { carry_out(event(state_), later); });
}

void Installer::carry_out(MasterOrders orders, Later& later) {
  for (size_t i = 0; i < orders.size(); ++i) {
    const MasterOrders follow = carry_out(MasterOrder(orders[i]), calls_.at(orders[i].call), later);
    orders.insert(orders.end(), follow.begin(), follow.end());
  }
}

MasterOrders Installer::carry_out(const MasterOrder& order, InstalledCall& call, Later& later) {
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
      no_longer_live(call);
      break;
    case MasterOrder::failed:
      fail(order.call, order.code, order.text, later);
      break;
  }
  return {};
}

void Installer::forget_local(InstalledCall& call, Later& later) {
  if (!call.local) return;
  add(call.sent, call.local->edge_counts());
  later.old.push_back(std::move(call.local));
  call.local = nullptr;
}

MasterOrders Installer::install_here(InstalledCall& call) {
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

MasterOrders Installer::connect_here(InstalledCall& call) {
  const ExecutableState& e = state_.calls().at(call.prepared->id);
  for (const ExecutableEdge& edge : e.edges) {
    if (edge.source_task != process_.task()) continue;
    const auto receiver =
        process_.remote<OpHandle>(edge.destination_task, e.receivers.at(edge.edge));
    if (!receiver) return {};  // the member is gone; its member_down() is under way
    call.local->connect(edge.edge, receiver);
  }
  return state_.connected(process_.task(), e.executable);
}

MasterOrders Installer::install_there(const InstalledCall& call, const MasterOrder& order) {
  const Members::Present member = members_.find(order.task);
  if (!member.agent) return {};
  const auto done = [this, order](Errc code, const std::string& text,
                                  const RemoteParts::Receivers& receivers) {
    answered([&](MasterState& s) {
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

void Installer::connect_there(const MasterOrder& order) {
  const Members::Present member = members_.find(order.task);
  if (!member.agent) return;
  remote_.connect(member, state_.calls().at(order.call),
                  [this, order](Errc code, const std::string& text, const RemoteParts::Receivers&) {
                    answered([&](MasterState& s) {
                      return code == Errc::ok
                                 ? s.connected(order.task, order.executable)
                                 : s.install_failed(order.task, order.executable, code, text);
                    });
                  });
}

void Installer::uninstall_there(const MasterOrder& order) {
  const Members::Present member = members_.find(order.task);
  if (!member.agent) return;
  remote_.uninstall(member, order.executable,
                    [this, order, of = calls_.at(order.call).prepared](Errc, const std::string&,
                                                                       const EdgeCounts& sent) {
                      locked_([&](Later&) {
                        InstalledCall& call = calls_.at(order.call);
                        if (call.prepared == of) add(call.sent, from_message(sent));
                      });
                    });
}

std::shared_ptr<const LiveCall> Installer::make_live(const InstalledCall& call) {
  const ExecutableState& e = state_.calls().at(call.prepared->id);
  auto live = std::make_shared<LiveCall>();
  live->executable = e.executable;
  if (fence() > 0) ++fence_;
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
    const Agent door = member.agent ? process_.remote<Agent>(task, member.agent.id()) : Agent();
    if (!door) return nullptr;  // the member is gone; its member_down() is under way
    live->remotes.emplace_back(task, door);
  }
  return live;
}

// Replaced kernels

void Installer::replace(const std::string& node, const std::shared_ptr<const Op>& op,
                        bool by_name) {
  replaced_[node] = op;
  if (by_name) remote_.remember(node, op->name);
}

bool Installer::here(const PreparedCall& call) const {
  return std::all_of(call.partitions.begin(), call.partitions.end(),
                     [&](const Partition& part) { return process_.device(part.device); });
}

std::set<std::string> Installer::tasks_of_node(const std::string& node) const {
  std::set<std::string> tasks;
  for (const auto& [id, call] : calls_) {
    if (here(*call.prepared)) continue;
    for (const auto& [n, device] : call.prepared->placement.devices)
      if (does_work_of(call.prepared->graph->node(n), node)) tasks.insert(task_of(device));
  }
  tasks.erase(process_.task());
  return tasks;
}

std::vector<std::shared_ptr<Installation>> Installer::local() const {
  std::vector<std::shared_ptr<Installation>> out;
  for (const auto& [id, call] : calls_)
    if (call.local) out.push_back(call.local);
  return out;
}

}  // namespace troupe
