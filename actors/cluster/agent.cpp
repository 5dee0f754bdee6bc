// The agent's state: the installations of all sessions in this process, and the answers to their
// masters' messages.
#include "actors/cluster/agent.hpp"

#include <map>
#include <optional>

#include "actors/async/guard.hpp"
#include "actors/cluster/installation.hpp"
#include "actors/async/joined.hpp"
#include "actors/async/messages.hpp"
#include "actors/cluster/process.hpp"
#include "actors/cluster/survey.hpp"
#include "devices/run_context.hpp"
#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"
#include "net/wire/graph_proto.hpp"
#include "placement/partition.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kLeaseTick{500};
// A tick that is later by more than this tells of a time in which this process did not run.
constexpr std::chrono::milliseconds kLateMax = 10 * kLeaseTick;

struct AgentState {
  const char* name = "agent";  // the actor's name in CAF and in our logs
  Process* process = nullptr;
  Requests requests;
  struct SessionParts {
    struct CallVersion {
      std::shared_ptr<const Graph> graph;
      int64_t version = 0;
    };
    std::map<int64_t, CallVersion> graphs;  // by call
    struct Installed {
      int64_t call = 0;
      std::shared_ptr<Installation> parts;
    };
    MasterDoor master;                                          // its door, set when a step begins
    std::map<uint32_t, Installed> installations;                // by executable
    std::map<std::string, std::shared_ptr<const Op>> replaced;  // by node
    // A running step holds its installation, so it is cancelled here.
    ~SessionParts() {
      for (auto& [id, installed] : installations)
        installed.parts->cancel_all(Errc::cancelled, "the session has ended");
    }
    void drop_before(uint32_t executable, int64_t call);
  };
  std::map<uint64_t, SessionParts> sessions;
  std::optional<SessionLeases::TimePoint> looks_at;  // at leases, with the next tick; none: no tick

  void install_graph(const InstallGraph& m, const caf::node_id& from);
  PartsInstalled install(const InstallParts& m);
  void connect(const ConnectParts& m);
  Became become(const Become& m);
  std::map<int32_t, EdgeCount> uninstall(const Uninstall& m);
  void end(uint64_t session);
  void end_late_sessions();
  Installation* find(uint64_t session, uint32_t executable) const;  // nullptr if it is not here
  void start(const StartStep& m, const MasterDoor& master);
  void cancel(const CancelStep& m);
  void link_lost(const LinkLost& m);
  Description describe() const;
};

void AgentState::install_graph(const InstallGraph& m, const caf::node_id& from) {
  process->hold(m.session, from);
  auto& graphs = sessions[m.session].graphs;
  if (auto it = graphs.find(m.call); it != graphs.end() && it->second.version >= m.version) return;
  graphs[m.call] = {graph_from_proto(m.bytes, process->ops()), m.version};
}

// Drops earlier installations of the call. Its master uninstalls them itself, except when the link
// to it was lost meanwhile: then the process that comes back is a new one, or this one with its old
// installations.
void AgentState::SessionParts::drop_before(uint32_t executable, int64_t call) {
  std::erase_if(installations, [&](const auto& entry) {
    if (entry.first >= executable || entry.second.call != call) return false;
    entry.second.parts->cancel_all(Errc::cancelled, "the executable has a successor");
    return true;
  });
}

PartsInstalled AgentState::install(const InstallParts& m) {
  auto it = sessions.find(m.session);
  const auto missing = [&] {
    return Error(Errc::stale, "the graph of call ", m.call, " of session ", m.session,
                 " is not here");
  };
  if (it == sessions.end()) throw missing();
  SessionParts& parts = it->second;
  const auto known = parts.graphs.find(m.call);
  if (known == parts.graphs.end() || known->second.version != m.version) throw missing();
  const std::shared_ptr<const Graph>& graph = known->second.graph;
  std::map<int32_t, std::string> placement;
  for (size_t i = 0; i < m.placed_nodes.size(); ++i)
    placement[m.placed_nodes[i]] = m.devices.at(static_cast<size_t>(m.placement.at(i)));
  std::vector<Output> fetches, feeds;
  for (const std::string& name : m.fetches) fetches.push_back(graph->output(name));
  for (const std::string& name : m.feeds) feeds.push_back(graph->output(name));
  std::vector<Partition> mine;
  for (Partition& p : partition(*graph, fetches, feeds, placement, m.client_device))
    if (process->device(p.device)) mine.push_back(std::move(p));
  for (const auto& [executable, installed] : parts.installations)
    if (installed.call == m.call && executable > m.executable)
      throw Error(Errc::stale, "executable ", m.executable, " has a successor here, ", executable);
  parts.drop_before(m.executable, m.call);
  auto installation = Installation::make(m.session, m.executable, graph, std::move(mine), *process);
  for (const auto& [node, op] : parts.replaced) installation->become(node, op);
  PartsInstalled out;
  for (const auto& [edge, actor] : installation->receivers()) {
    out.edges.push_back(edge);
    out.actors.push_back(actor);
  }
  parts.installations[m.executable] = {m.call, std::move(installation)};
  return out;
}

void AgentState::connect(const ConnectParts& m) {
  Installation* installation = find(m.session, m.executable);
  if (!installation)
    throw Error(Errc::stale, "executable ", m.executable, " of session ", m.session,
                " is not installed in ", process->task(), "; the master installs it again");
  // Checks the sending peers, too: link_lost() is not called for a link that is not there yet.
  const std::vector<std::string> peers(installation->peers().begin(), installation->peers().end());
  const auto missing = process->mesh() ? process->mesh()->waiting_for(peers) : peers;
  if (!missing.empty())
    throw Error(Errc::peer_lost, "no link between ", process->task(), " and ", joined(missing));
  for (size_t i = 0; i < m.edges.size(); ++i) {
    const auto receiver = process->remote<OpHandle>(m.tasks.at(i), m.actors.at(i));
    if (!receiver)
      throw Error(Errc::peer_lost, "no link to ", m.tasks.at(i), ", which receives edge ",
                  m.edges[i]);
    installation->connect(m.edges[i], receiver);
  }
}

Became AgentState::become(const Become& m) {
  const auto ops = process->ops();
  const std::shared_ptr<const Op> op(ops, &ops->get(m.op));
  const auto known = sessions.find(m.session);
  if (known == sessions.end()) return {};  // its graph comes first; nobody makes up sessions
  SessionParts& parts = known->second;
  Became out;
  for (const auto& [id, installed] : parts.installations)
    out.executors += installed.parts->become(m.node, op);
  parts.replaced[m.node] = op;
  return out;
}

Installation* AgentState::find(uint64_t session, uint32_t executable) const {
  auto parts = sessions.find(session);
  if (parts == sessions.end()) return nullptr;
  auto it = parts->second.installations.find(executable);
  return it == parts->second.installations.end() ? nullptr : it->second.parts.get();
}

std::map<int32_t, EdgeCount> AgentState::uninstall(const Uninstall& m) {
  if (m.executable >= 0) {
    const auto executable = static_cast<uint32_t>(m.executable);
    Installation* installation = find(m.session, executable);
    if (!installation) return {};
    installation->cancel_all(Errc::cancelled, "the executable was taken back");
    auto sent = installation->edge_counts();
    sessions.at(m.session).installations.erase(executable);
    return sent;
  }
  end(m.session);
  process->leases().release(m.session);
  return {};
}

void AgentState::end(uint64_t session) {
  sessions.erase(session);
  process->services().forget(session);
  process->resources().forget(session);
  if (SegmentPool* const segments = process->cpu().segments()) segments->trim();
}

void AgentState::end_late_sessions() {
  for (const auto& [session, task, why] :
       process->leases().take_over(process->system().clock().now())) {
    process->log()->warn("a session ends without its program: peer={} session={} reason={}", task,
                         session, why);
    end(session);
  }
}

void AgentState::start(const StartStep& m, const MasterDoor& master) {
  FinishStep answer;
  answer.session = m.session;
  answer.executable = m.executable;
  answer.run = m.run;
  answer.task = process->task();
  Installation* installation = find(m.session, m.executable);
  if (!installation) {
    answer.code = Errc::bad_configuration;
    answer.not_installed = true;  // tells the master to install it again
    answer.text = detail::concat(process->task(), " does not have executable ", m.executable);
    caf::anon_send(master, std::move(answer));
    return;
  }
  sessions.at(m.session).master = master;
  installation->forget_before(m.oldest);
  RunContext info;
  info.run = m.run;
  info.step = m.step;
  info.first_step = m.first_step;
  info.draws = m.draws;
  info.fence = m.fence;
  info.parameters = process->services().port(m.session);
  fail_point(FailPoint::agent_step_started);
  installation->run(
      info, nullptr, {}, {}, /*here=*/false,
      [answer = std::move(answer), master](StepResult result, std::vector<Tensor>) mutable {
        // The process begins anew, so the run may be tried again.
        answer.code = result.code == Errc::device_lost ? Errc::peer_lost : result.code;
        answer.text = std::move(result.text);
        fail_point(FailPoint::agent_step_ended);
        caf::anon_send(master, std::move(answer));
      });
}

void AgentState::cancel(const CancelStep& m) {
  if (Installation* installation = find(m.session, m.executable))
    installation->cancel(m.run, Errc::cancelled, "the master took the step back");
}

// Values of edges are not acknowledged, so it is unknown which were lost, or whether more will be.
// Drops the installations that use this link: their steps end, the master is told, and it installs
// them anew when there is a link.
void AgentState::link_lost(const LinkLost& m) {
  for (auto& [session, parts] : sessions)
    for (auto it = parts.installations.begin(); it != parts.installations.end();) {
      if (!it->second.parts->peers().count(m.task)) {
        ++it;
        continue;
      }
      FinishStep word;
      word.session = session;
      word.executable = it->first;
      word.run = -1;
      word.task = process->task();
      word.code = Errc::peer_lost;
      word.text = detail::concat("the link between ", process->task(), " and ", m.task,
                                 " is gone: ", m.reason,
                                 "; run the call again: it waits until there is one");
      word.not_installed = true;
      // Before the steps end: a caller that repeats one must find that the call is being installed.
      if (parts.master && !mutant(Mutant::link_loss_not_told)) caf::anon_send(parts.master, word);
      it->second.parts->cancel_all(word.code, word.text);
      it = parts.installations.erase(it);
    }
}

Description AgentState::describe() const {
  Description out;
  for (const auto& device : process->devices()) out.devices.push_back(device->name());
  for (const auto& [id, session] : sessions)
    for (const auto& [executable, installed] : session.installations) {
      out.executors += static_cast<int64_t>(installed.parts->executors().size());
      out.running_steps += installed.parts->running();
    }
  return out;
}

using TickingAgent = Agent::extend<caf::reacts_to<caf::tick_atom>>;

// Keeps looking as long as a program is away.
void look_at_leases(TickingAgent::stateful_pointer<AgentState> self) {
  SessionLeases& leases = self->state.process->leases();
  auto& looks_at = self->state.looks_at;
  const auto now = self->system().clock().now();
  if (looks_at && now - *looks_at > kLateMax) leases.was_frozen(now - *looks_at, now);
  self->state.end_late_sessions();
  if (looks_at && now < *looks_at) return;
  looks_at.reset();
  if (!leases.any_away()) return;
  looks_at = now + kLeaseTick;
  self->delayed_send(self, kLeaseTick, caf::tick_atom_v);
}

caf::node_id sender_of(caf::scheduled_actor& self) {
  const caf::strong_actor_ptr& sender = self.current_sender();
  return sender ? sender->node() : caf::node_id{};
}

TickingAgent::behavior_type run_agent(TickingAgent::stateful_pointer<AgentState> self,
                                      Process* process) {
  const auto check_owner = [self](uint64_t session) {
    self->state.process->leases().check(session, sender_of(*self));
  };
  const auto is_masters = [self](uint64_t session) {
    const caf::node_id from = sender_of(*self);
    return from && !self->state.process->leases().is_of_another(session, from);
  };
  self->state.process = process;
  self->state.requests.attach(self);
  self->set_exception_handler(to_error);
  self->set_default_handler([process](caf::scheduled_actor*, caf::message_view&) {
    process->log()->warn("an unknown message came; run one version everywhere: task={}",
                         process->task());
    return caf::result<caf::message>(
        to_caf(Errc::bad_configuration,
               process->task() + " does not understand that message; run one version everywhere"));
  });
  return {
      [self](const InstallGraph& m) {
        return answer([&] {
          self->state.install_graph(m, sender_of(*self));
          return caf::unit;
        });
      },
      [self, check_owner](const InstallParts& m) {
        return answer([&] {
          check_owner(m.session);
          return self->state.install(m);
        });
      },
      [self, check_owner](const ConnectParts& m) {
        return answer([&] {
          check_owner(m.session);
          self->state.connect(m);
          return caf::unit;
        });
      },
      [self, check_owner](const Become& m) {
        return answer([&] {
          check_owner(m.session);
          return self->state.become(m);
        });
      },
      [self, check_owner](const Uninstall& m) {
        return answer([&] {
          check_owner(m.session);
          return to_message(self->state.uninstall(m));
        });
      },
      [self](const CountEdges& m) {
        const Installation* installation = self->state.find(m.session, m.executable);
        return installation ? to_message(installation->edge_counts()) : EdgeCounts{};
      },
      [self, is_masters](const StartStep& m) {
        if (is_masters(m.session))
          self->state.start(m, caf::actor_cast<MasterDoor>(self->current_sender()));
      },
      [self, is_masters](const CancelStep& m) {
        if (is_masters(m.session)) self->state.cancel(m);
      },
      [self](const LinkLost& m) {
        self->state.link_lost(m);
        look_at_leases(self);
      },
      [self](caf::tick_atom) { look_at_leases(self); },
      [self](const FindService& m) -> caf::result<caf::actor> {
        caf::actor found = self->state.process->services().actor(m.name);
        if (!found) found = self->state.process->local_devices().actor_of(m.name);
        if (!found)
          return to_caf(Errc::bad_configuration,
                        self->state.process->task() + " offers no service " + m.name);
        return found;
      },
      [self](const Describe&) { return self->state.describe(); },
      [self](const AskWaits& m) {
        auto promise = self->make_response_promise<Waits>();
        const Installation* installation = self->state.find(m.session, m.executable);
        gather_waits(self->state.requests, *self->state.process, m,
                     installation ? installation->waiting_for(m.run) : std::vector<std::string>{},
                     [promise](std::vector<std::string> lines) mutable {
                       promise.deliver(Waits{std::move(lines)});
                     });
        return promise;
      },
      [](const ReadClock&) { return ClockReading{Tracer::now_ns()}; },
      [self](const Leave&) {
        Process& here = *self->state.process;
        const std::string task = here.leases().task_of(sender_of(*self));
        return Left{!task.empty() && here.departures().leaves(task)};
      },
      [self](const SetTracing& m) {
        Tracer& tracer = self->state.process->tracer();
        if (m.on) {
          tracer.start();
          return TraceEvents{};
        }
        tracer.stop();
        return TraceEvents{tracer.take(m.origin_ns)};
      },
  };
}

}  // namespace

Agent spawn_agent(Process& process) { return process.system().spawn(run_agent, &process); }

}  // namespace troupe
