// Implements actors/master.hpp.
#include "actors/master.hpp"

#include <algorithm>
#include <future>

#include "actors/guard.hpp"
#include "actors/messages.hpp"
#include "graph/passes.hpp"
#include "net/graph_proto.hpp"
#include "troupe/device_name.hpp"

namespace troupe {

// Cancellation

struct Cancellation::State {
  std::mutex mutex;  // guards both
  bool cancelled = false;
  std::map<int64_t, std::function<void()>> runs;
  int64_t next = 0;
};
Cancellation::Cancellation() : state_(std::make_shared<State>()) {}
void Cancellation::cancel() {
  std::map<int64_t, std::function<void()>> runs;
  {
    std::lock_guard lock(state_->mutex);
    state_->cancelled = true;
    runs.swap(state_->runs);
  }
  for (auto& [id, stop] : runs) stop();
}
bool Cancellation::cancelled() const {
  std::lock_guard lock(state_->mutex);
  return state_->cancelled;
}
std::shared_ptr<void> Cancellation::watch(std::function<void()> stop) {
  std::lock_guard lock(state_->mutex);
  if (state_->cancelled) {
    return nullptr;
  }
  const int64_t id = state_->next++;
  state_->runs[id] = std::move(stop);
  return std::shared_ptr<void>(state_.get(), [state = state_, id](void*) {
    std::lock_guard lock(state->mutex);
    state->runs.erase(id);
  });
}

namespace {

// Receives FinishStep of this session's steps. Only stores and signals.
class MasterDoor final : public caf::monitorable_actor {
 public:
  using Finish = std::function<void(const FinishStep&)>;
  MasterDoor(caf::actor_config& config, Finish finish)
      : monitorable_actor(config), finish_(std::move(finish)) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) override {
    auto& content = message->content();
    if (content.match_elements<FinishStep>()) {
      finish_(content.get_as<FinishStep>(0));
    } else if (!handle_system_message(*message, unit, false)) {
      bounce(message, make_error(caf::sec::unexpected_message));
    }
  }
  const char* name() const override { return "master door"; }
  void retire() { cleanup(caf::error{}, nullptr); }

 private:
  const Finish finish_;
};

std::string label(const Output& output) { return detail::concat(output.name(), ":", output.index); }

}  // namespace

// What must not be done under the mutex: it runs kernels or calls users.
struct Master::Later {
  std::vector<std::function<void()>> work;
  void run() {
    for (auto& w : work) w();
    work.clear();
  }
};

std::string Master::task_of(const std::string& device) {
  return device.substr(0, device.find("/device:"));
}

caf::actor_clock::time_point Master::now() const { return process_.system().clock().now(); }

Master::Master(Process& process, Graph& graph, uint64_t session)
    : process_(process), graph_(graph), session_(session), state_(session, process.task()) {
  caf::actor_config config;
  door_ = caf::make_actor<MasterDoor, caf::actor>(
      process.system().next_actor_id(), process.system().node(), &process.system(), config,
      [this](const FinishStep& m) {
        if (m.session != session_) return;
        // The worker has restarted, and we have not heard of it yet.
        const bool missing = m.code == Errc::bad_configuration && m.fired < 0;
        if (missing)
          on_orders_from_actor([&](MasterState& s) { return s.missing(m.task, m.executable); });
        finish_part(m.run, m.task, missing ? Errc::peer_lost : m.code, m.text, {});
      });
  process.open_door(caf::actor_cast<caf::strong_actor_ptr>(door_));
  actor_ = process.system().spawn([this](caf::event_based_actor* self) -> caf::behavior {
    self->set_exception_handler(to_error);
    self->delayed_send(self, kMasterTick, caf::tick_atom_v);
    return {[this, self](caf::tick_atom) {
              tick();
              self->delayed_send(self, kMasterTick, caf::tick_atom_v);
            },
            [self](const RemoteRequest& request) { request.go(self); }};
  });
  process.track(actor_);
}

Master::~Master() { stop(); }

void Master::stop() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
  }
  changed_.notify_all();
  cancel_all(Errc::cancelled, "the session is closing");
  for (const auto& [task, agent] : agents()) caf::anon_send(agent, Uninstall{session_, -1});
  process_.close_door(door_.id());
  caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
  static_cast<MasterDoor*>(caf::actor_cast<caf::abstract_actor*>(door_))->retire();
}

void Master::set_ensure(Ensure ensure) {
  std::lock_guard lock(mutex_);
  ensure_ = std::move(ensure);
}

void Master::add_listener(MeshListener* listener) {
  std::vector<std::pair<Member, caf::actor>> present;
  {
    std::lock_guard lock(mutex_);
    listeners_.push_back(listener);
    for (const auto& [task, agent] : agents_) present.push_back(agent);
  }
  for (const auto& [member, agent] : present) listener->up(member, agent);
}

void Master::remove_listener(MeshListener* listener) {
  std::lock_guard lock(mutex_);
  listeners_.erase(std::remove(listeners_.begin(), listeners_.end(), listener), listeners_.end());
}

// Members

void Master::refused(Errc code, const std::string& reason) {
  std::lock_guard lock(mutex_);
  refusal_ = {code, reason};
  changed_.notify_all();
}

StepResult Master::refusal() const {
  std::lock_guard lock(mutex_);
  return refusal_;
}

void Master::up(const Member& member, const caf::actor& agent) {
  // Its devices are asked for first: a call is placed on devices that exist.
  caf::anon_send(actor_, RemoteRequest{[this, member, agent](caf::event_based_actor* self) {
                   self->request(agent, kInstallTimeout, Describe{})
                       .then(
                           [this, member, agent](const Description& d) {
                             std::vector<MeshListener*> listeners;
                             {
                               std::lock_guard lock(mutex_);
                               if (stopped_) return;
                               agents_[member.name()] = {member, agent};
                               devices_of_[member.name()] = d.devices;
                               listeners = listeners_;
                             }
                             on_orders_from_actor([&](MasterState& s) {
                               return s.member_up(member.name(), member.incarnation);
                             });
                             for (MeshListener* l : listeners) l->up(member, agent);
                             changed_.notify_all();
                           },
                           [this, member](const caf::error& e) {
                             process_.log()->warn(
                                 "member does not describe itself: peer={} error={}", member.name(),
                                 from_caf(e).second);
                           });
                 }});
}

void Master::down(const Member& member, const std::string& reason) {
  process_.peer_down(member, reason);
  const std::string task = member.name();
  std::vector<int64_t> hit;
  std::vector<MeshListener*> listeners;
  Later later;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    agents_.erase(task);
    for (const auto& [id, run] : runs_)
      if (run->open.count(task)) hit.push_back(id);
    listeners = listeners_;
    carry_out(state_.member_down(task, reason), later);
  }
  later.run();
  for (int64_t id : hit)
    finish_part(id, task, Errc::peer_lost, detail::concat(task, " is gone: ", reason), {});
  for (MeshListener* l : listeners) l->down(member, reason);
  changed_.notify_all();
}

void Master::on_orders_from_actor(const std::function<MasterOrders(MasterState&)>& event) {
  Later later;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    carry_out(event(state_), later);
  }
  later.run();
  changed_.notify_all();
}

std::map<std::string, caf::actor> Master::agents() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, caf::actor> out;
  for (const auto& [task, agent] : agents_) out[task] = agent.second;
  return out;
}

std::vector<std::string> Master::devices() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& device : process_.devices()) out.push_back(device->name());
  for (const auto& [task, devices] : devices_of_)
    out.insert(out.end(), devices.begin(), devices.end());
  return out;
}

bool Master::wait_for_any(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] {
    return !agents_.empty() || refusal_.code != Errc::ok;
  }) && !agents_.empty();
}

std::vector<std::string> Master::wait_for(const std::vector<std::string>& tasks,
                                          std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  std::vector<std::string> missing;
  changed_.wait_for(lock, timeout, [&] {
    missing.clear();
    for (const std::string& task : tasks)
      if (!agents_.count(task)) missing.push_back(task);
    return missing.empty();
  });
  return missing;
}

// Preparing

int64_t Master::prepare(const std::vector<Output>& fetches, const std::vector<Output>& feeds) {
  for (const Output& o : fetches)
    if (!o.defined() || o.graph != &graph_)
      throw Error(Errc::invalid_argument,
                  "a fetch is not an output of this session's graph; fetch what a function of this "
                  "graph returned");
  for (const Output& o : feeds) {
    if (!o.defined() || o.graph != &graph_)
      throw Error(Errc::invalid_argument,
                  "a feed is not an output of this session's graph; feed what a function of this "
                  "graph returned");
    if (graph_.node(o.node).outputs.empty())
      throw Error(Errc::invalid_argument, "node ", o.name(), " has no output that could be fed");
  }
  {
    std::lock_guard lock(mutex_);
    if (auto it = call_ids_.find({fetches, feeds}); it != call_ids_.end()) return it->second;
  }
  std::vector<std::string> available = devices();
  auto call = std::make_unique<Call>();
  call->fetches = fetches;
  call->feeds = feeds;
  call->nodes = prune(graph_, fetches, feeds);
  const std::string client = process_.cpu().name();
  std::string fallback = client;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [task, devices] : devices_of_)
      if (task.rfind("/job:worker/", 0) == 0 && !devices.empty()) {
        fallback = devices.front();
        break;
      }
  }
  PlacementOptions wishes;
  wishes.devices = available;
  wishes.default_device = fallback;
  wishes.has_kernel = [this](const Node& node, const std::string& device) {
    if (const Device* ours = process_.device(device)) return ours->kernel_for(node) != nullptr;
    const DeviceKind kind = *parse_device_name(device).kind;
    if (kind != DeviceKind::shadow) return find_kernel(node, kind) != nullptr;
    const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
    return kernel && kernel->run;
  };
  call->placement = place(graph_, call->nodes, wishes);
  call->partitions = partition(graph_, fetches, feeds, call->placement.devices, client);
  std::set<int64_t> slots;
  for (int32_t id : call->nodes) {
    const Node& node = graph_.node(id);
    // A node with state and no output is run for its effect: the call counts as a training step of
    // its slot.
    if (node.op->stateful && node.op->outputs.empty())
      if (auto it = node.attrs.find("slot"); it != node.attrs.end())
        slots.insert(std::get<int64_t>(it->second));
  }
  call->slots.assign(slots.begin(), slots.end());

  Later later;
  int64_t id = 0;
  Ensure ensure;
  std::vector<int32_t> nodes = call->nodes;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) throw Error(Errc::cancelled, "the session is closed");
    if (auto it = call_ids_.find({fetches, feeds}); it != call_ids_.end()) return it->second;
    id = static_cast<int64_t>(calls_.size()) + 1;
    call->id = id;
    call_ids_[{fetches, feeds}] = id;
    Call& mine = *(calls_[id] = std::move(call));
    ensure = ensure_;
    if (!ensure) install_call(mine, later);
  }
  later.run();
  if (ensure)
    ensure(std::move(nodes),
           [this, id](Errc code, const std::string& text) { ensured(id, code, text); });
  return id;
}

void Master::ensured(int64_t id, Errc code, const std::string& text) {
  Later later;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    Call& call = *calls_.at(id);
    if (code == Errc::ok) {
      install_call(call, later);
    } else {
      MasterOrders orders = {{MasterOrder::failed, id, 0, "", text}};
      call.code = code;
      carry_out(std::move(orders), later);
    }
  }
  later.run();
  changed_.notify_all();
}

void Master::install_call(Call& call, Later& later) {
  call.ensured = true;
  ExecutableState e;
  e.call = call.id;
  for (const Output& o : call.fetches) e.fetches.push_back(label(o));
  for (const Output& o : call.feeds) e.feeds.push_back(label(o));
  e.placement = call.placement.devices;
  e.tasks[process_.task()] = InstallPhase::waiting;
  for (const Partition& p : call.partitions) {
    e.tasks[task_of(p.device)] = InstallPhase::waiting;
    for (const Edge& edge : p.edges)
      if (edge.source == p.device && task_of(edge.source) != task_of(edge.destination))
        e.edges.push_back({edge.id, task_of(edge.source), task_of(edge.destination)});
  }
  carry_out(state_.add(std::move(e)), later);
}

void Master::carry_out(MasterOrders orders, Later& later) {
  for (size_t i = 0; i < orders.size(); ++i) {
    const MasterOrder order = orders[i];
    Call& call = *calls_.at(order.call);
    MasterOrders follow;
    const bool here = order.task == process_.task();
    switch (order.kind) {
      case MasterOrder::install:
        if (here)
          install_local(call, follow);
        else
          install_remote(call, order);
        break;
      case MasterOrder::connect:
        if (here)
          connect_local(call, follow);
        else
          connect_remote(call, order);
        break;
      case MasterOrder::uninstall:
        if (here) {
          if (call.local)  // what it has sent still counts
            for (const auto& stage : call.local->stages()) {
              for (const auto& [edge, n] : stage->edge_bytes()) call.bytes[edge] += n;
              for (const auto& [edge, n] : stage->edge_transfers()) call.transfers[edge] += n;
            }
          later.work.push_back([old = std::move(call.local)] {});
          call.local = nullptr;
        } else if (auto it = agents_.find(order.task); it != agents_.end()) {
          caf::anon_send(it->second.second, Uninstall{session_, order.executable});
        }
        break;
      case MasterOrder::ready: {
        call.live = make_live(call);
        if (!call.live) break;  // what waits goes on waiting
        auto waiting = std::move(call.waiting);
        call.waiting.clear();
        for (Waiting& w : waiting)
          later.work.push_back([this, &call, live = call.live, w = std::move(w)]() mutable {
            launch(call, live, std::move(w));
          });
        break;
      }
      case MasterOrder::broken:
        call.live = nullptr;
        break;
      case MasterOrder::failed: {
        call.error = order.text;
        if (call.code == Errc::ok) call.code = Errc::invalid_argument;
        call.live = nullptr;
        auto waiting = std::move(call.waiting);
        call.waiting.clear();
        for (Waiting& w : waiting)
          later.work.push_back([done = std::move(w.done),
                                result = RunResult{call.code, order.text, {}}] { done(result); });
        break;
      }
    }
    orders.insert(orders.end(), follow.begin(), follow.end());
  }
}

void Master::install_local(Call& call, MasterOrders& follow) {
  const ExecutableState& e = state_.calls().at(call.id);
  std::vector<Partition> mine;
  for (const Partition& p : call.partitions)
    if (process_.device(p.device)) mine.push_back(p);
  try {
    call.local = Installation::make(session_, e.executable,
                                    std::shared_ptr<const Graph>(std::shared_ptr<void>(), &graph_),
                                    std::move(mine), process_);
    follow = state_.installed(process_.task(), e.executable, call.local->receivers());
  } catch (const Error& error) {
    call.code = error.code();
    follow = state_.install_failed(process_.task(), e.executable, error.code(), error.what());
  }
}

void Master::connect_local(Call& call, MasterOrders& follow) {
  const ExecutableState& e = state_.calls().at(call.id);
  for (const ExecutableEdge& edge : e.edges) {
    if (edge.source_task != process_.task()) continue;
    caf::actor receiver = process_.remote(edge.destination_task, e.receivers.at(edge.edge));
    if (!receiver) return;  // it is gone; its going is being told to us
    call.local->connect(edge.edge, receiver);
  }
  follow = state_.connected(process_.task(), e.executable);
}

void Master::install_remote(const Call& call, const MasterOrder& order) {
  auto agent = agents_.find(order.task);
  if (agent == agents_.end()) return;
  const ExecutableState& e = state_.calls().at(call.id);
  const int64_t node_count = static_cast<int64_t>(graph_.nodes().size());
  int64_t& sent = graph_sent_[{order.task, agent->second.first.incarnation}];
  std::string bytes;
  if (sent < node_count) {
    bytes = graph_to_proto(graph_);
    sent = node_count;
  }
  InstallParts parts;
  parts.session = session_;
  parts.executable = e.executable;
  parts.node_count = node_count;
  parts.fetches = e.fetches;
  parts.feeds = e.feeds;
  parts.client_device = process_.cpu().name();
  std::map<std::string, int32_t> index;
  for (const auto& [node, device] : e.placement) {
    auto [it, fresh] = index.try_emplace(device, static_cast<int32_t>(parts.devices.size()));
    if (fresh) parts.devices.push_back(device);
    parts.placed_nodes.push_back(node);
    parts.placement.push_back(it->second);
  }
  const std::pair<std::string, uint64_t> receiver{order.task, agent->second.first.incarnation};
  const auto failed = [this, order, receiver](const caf::error& error) {
    const auto [code, text] = from_caf(error);
    {
      std::lock_guard lock(mutex_);
      graph_sent_.erase(receiver);  // it may not have arrived; one that has is not taken again
    }
    on_orders_from_actor([&, code = code, text = text](MasterState& s) {
      return s.install_failed(order.task, order.executable, code, text);
    });
  };
  caf::anon_send(
      actor_,
      RemoteRequest{[this, order, failed, agent = agent->second.second, parts = std::move(parts),
                     bytes = std::move(bytes), node_count](caf::event_based_actor* self) {
        const auto install = [this, self, order, failed, agent, parts] {
          self->request(agent, kInstallTimeout, parts)
              .then(
                  [this, order](const PartsInstalled& m) {
                    std::map<int32_t, uint64_t> receivers;
                    for (size_t i = 0; i < m.edges.size(); ++i)
                      receivers[m.edges[i]] = m.actors.at(i);
                    on_orders_from_actor([&](MasterState& s) {
                      return s.installed(order.task, order.executable, receivers);
                    });
                  },
                  failed);
        };
        if (bytes.empty()) {
          install();
        } else {
          self->request(agent, kInstallTimeout, InstallGraph{session_, node_count, bytes})
              .then([install] { install(); }, failed);
        }
      }});
}

void Master::connect_remote(const Call& call, const MasterOrder& order) {
  auto agent = agents_.find(order.task);
  if (agent == agents_.end()) return;
  const ExecutableState& e = state_.calls().at(call.id);
  ConnectParts m;
  m.session = session_;
  m.executable = e.executable;
  for (const ExecutableEdge& edge : e.edges) {
    if (edge.source_task != order.task) continue;
    m.edges.push_back(edge.edge);
    m.tasks.push_back(edge.destination_task);
    m.actors.push_back(e.receivers.at(edge.edge));
  }
  caf::anon_send(actor_, RemoteRequest{[this, order, agent = agent->second.second,
                                        m = std::move(m)](caf::event_based_actor* self) {
                   self->request(agent, kInstallTimeout, m)
                       .then(
                           [this, order] {
                             on_orders_from_actor([&](MasterState& s) {
                               return s.connected(order.task, order.executable);
                             });
                           },
                           [this, order](const caf::error& error) {
                             const auto [code, text] = from_caf(error);
                             on_orders_from_actor([&, code = code, text = text](MasterState& s) {
                               return s.install_failed(order.task, order.executable, code, text);
                             });
                           });
                 }});
}

std::shared_ptr<Master::Live> Master::make_live(Call& call) {
  const ExecutableState& e = state_.calls().at(call.id);
  auto live = std::make_shared<Live>();
  live->executable = e.executable;
  live->local = call.local;
  live->client = call.local->stage_on(process_.cpu().name());
  for (const Output& o : call.feeds)
    live->feed_slots.push_back(live->client ? live->client->source_slot(o.node, o.index)
                                            : Stage::kNoSlot);
  for (const Output& o : call.fetches)
    live->fetch_slots.push_back(live->client ? live->client->slot_of(o.node, o.index)
                                             : Stage::kNoSlot);
  for (const auto& [task, phase] : e.tasks)
    if (task != process_.task()) {
      auto agent = agents_.find(task);
      caf::actor door =
          agent == agents_.end() ? caf::actor{} : process_.remote(task, agent->second.second.id());
      if (!door) return nullptr;  // it is gone; its going is being told to us
      live->remotes.emplace_back(task, door);
    }
  return live;
}

void Master::wait_ready(int64_t id, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  Call& call = *calls_.at(id);
  const bool settled = changed_.wait_for(
      lock, timeout, [&] { return call.live || call.code != Errc::ok || stopped_; });
  if (call.live) return;
  if (call.code != Errc::ok) throw Error(call.code, call.error);
  if (settled) throw Error(Errc::cancelled, "the session was closed");
  std::string missing;
  for (const std::string& task : state_.missing_tasks(id))
    missing += (missing.empty() ? "" : ", ") + task;
  if (missing.empty())
    throw Error(Errc::timeout, "the call was not installed within ", timeout.count(), " ms");
  throw Error(Errc::peer_lost, "waited ", timeout.count(), " ms for ", missing,
              "; start it, or give more time");
}

// Running

void Master::check_feeds(const Call& call, const std::vector<Tensor>& feeds) const {
  if (feeds.size() != call.feeds.size())
    throw Error(Errc::invalid_argument, "the call wants ", call.feeds.size(), " feeds, got ",
                feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Output& o = call.feeds[i];
    if (!feeds[i].defined() || feeds[i].dtype() != o.dtype() ||
        !o.shape().accepts(feeds[i].shape()))
      throw Error(
          Errc::invalid_argument, "feed ", label(o), " (made at ", graph_.node(o.node).file, ":",
          graph_.node(o.node).line, ") wants ", o.dtype(), o.shape(), ", got ",
          feeds[i].defined() ? detail::concat(feeds[i].dtype(), feeds[i].shape()) : "nothing");
    if (!feeds[i].on_host())
      throw Error(Errc::invalid_argument, "feed ", label(o),
                  " is not in host memory; feed a host tensor");
  }
}

int64_t Master::next_step_of(const Call& call, const RunOptions& options) {
  if (call.slots.empty()) return options.step;
  int64_t step = options.step;
  if (step < 0) {
    step = 0;
    for (int64_t slot : call.slots) step = std::max(step, next_step_[slot]);
  }
  for (int64_t slot : call.slots) next_step_[slot] = step + 1;
  return step;
}

void Master::set_next_step(int64_t slot, int64_t step) {
  std::lock_guard lock(mutex_);
  next_step_[slot] = step;
}

RunResult Master::run(int64_t id, const std::vector<Tensor>& feeds, const RunOptions& options) {
  const Call* call = nullptr;
  std::shared_ptr<Live> live;
  RunContext info;
  {
    std::lock_guard lock(mutex_);
    call = calls_.at(id).get();
    check_feeds(*call, feeds);
    live = call->live;
    if (live && live->remotes.empty() && live->local->stages().size() == 1 && live->client &&
        !stopped_) {
      info.run = next_run_++;
      info.step = next_step_of(*call, options);
    } else {
      live = nullptr;
    }
  }
  if (!live) {
    std::promise<RunResult> promise;
    std::future<RunResult> future = promise.get_future();
    start(id, feeds, options,
          [&promise](RunResult result) { promise.set_value(std::move(result)); });
    return future.get();  // start() always calls back: at the latest at the deadline
  }
  // One stage of this process: the caller's own thread fires it.
  Stage& stage = *live->client;
  info.parameters = process_.services().port(session_);
  ActivationPtr step = stage.begin(info);
  for (size_t i = 0; i < feeds.size(); ++i)
    if (live->feed_slots[i] != Stage::kNoSlot) step->set_source(live->feed_slots[i], feeds[i]);
  std::shared_ptr<void> watching;
  if (options.cancel) {
    watching = options.cancel->watch(
        [step] { step->interrupt(Errc::cancelled, "the caller cancelled the step"); });
    if (!watching) step->stop(Errc::cancelled, "the caller cancelled the step");
  }
  if (!step->own(true)) {
    if (!stage.wait(*step, std::chrono::steady_clock::now() + options.timeout)) {
      std::string waits;
      for (const std::string& node : step->waiting_for())
        waits += (waits.empty() ? "" : ", ") + node;
      step->interrupt(Errc::timeout,
                      detail::concat("the step did not end within ", options.timeout.count(),
                                     " ms; it waits for ", waits));
      stage.wait(*step, std::chrono::steady_clock::time_point::max());
    }
  }
  watching.reset();
  RunResult result{step->result().code, step->result().text, {}};
  if (result.code == Errc::ok)
    for (uint32_t slot : live->fetch_slots)
      result.values.push_back(slot == Stage::kNoSlot ? Tensor{} : step->value(slot));
  stage.release(std::move(step));
  return result;
}

void Master::start(int64_t id, const std::vector<Tensor>& feeds, const RunOptions& options,
                   std::function<void(RunResult)> done) {
  Waiting work{feeds, options, std::move(done), now() + options.timeout};
  std::shared_ptr<Live> live;
  Call* call = nullptr;
  RunResult refused;
  {
    std::lock_guard lock(mutex_);
    call = calls_.at(id).get();
    check_feeds(*call, feeds);
    live = call->live;
    if (stopped_) {
      refused = {Errc::cancelled, "the session is closed", {}};
    } else if (call->code != Errc::ok) {
      refused = {call->code, call->error, {}};
    } else if (runs_.size() + call->waiting.size() >= kRunsMax) {
      refused = {Errc::out_of_memory,
                 detail::concat("more than ", kRunsMax, " runs under way; wait for some of them"),
                 {}};
    } else if (!live) {
      call->waiting.push_back(std::move(work));
      return;
    }
  }
  if (refused.code != Errc::ok) {
    work.done(std::move(refused));
    return;
  }
  launch(*call, live, std::move(work));
}

void Master::launch(Call& call, const std::shared_ptr<Live>& live, Waiting work) {
  auto run = std::make_shared<Run>();
  run->live = live;
  run->call = call.id;
  run->done = std::move(work.done);
  run->started = now();
  run->deadline = work.deadline;
  RunContext info;
  {
    std::lock_guard lock(mutex_);
    run->id = info.run = next_run_++;
    if (!stopped_) {
      info.step = next_step_of(call, work.options);
      for (const auto& [task, worker] : live->remotes) run->open.insert(task);
      run->open.insert(process_.task());
      runs_[run->id] = run;
    }
  }
  if (run->open.empty()) {
    run->done({Errc::cancelled, "the session is closed", {}});
    return;
  }
  if (work.options.cancel) {
    run->cancellation = work.options.cancel->watch([this, weak = std::weak_ptr(run)] {
      if (auto r = weak.lock()) abort_run(r, Errc::cancelled, "the caller cancelled the step");
    });
    if (!run->cancellation) {
      {
        std::lock_guard lock(mutex_);
        runs_.erase(run->id);
      }
      run->done({Errc::cancelled, "the caller cancelled the step", {}});
      return;
    }
  }
  info.parameters = process_.services().port(session_);
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(work.deadline - now()).count();
  for (const auto& [task, worker] : live->remotes) {
    StartStep m;
    m.session = session_;
    m.executable = live->executable;
    m.run = info.run;
    m.step = info.step;
    m.deadline_ms = left;
    worker->enqueue(caf::actor_cast<caf::strong_actor_ptr>(door_), caf::make_message_id(),
                    caf::make_message(std::move(m)), nullptr);
  }
  std::vector<std::pair<uint32_t, Tensor>> sources;
  for (size_t i = 0; i < work.feeds.size(); ++i)
    if (live->feed_slots[i] != Stage::kNoSlot)
      sources.emplace_back(live->feed_slots[i], work.feeds[i]);
  live->local->run(info, live->client, sources, live->fetch_slots,
                   [this, id = run->id](const StepResult& result, std::vector<Tensor> kept) {
                     finish_part(id, process_.task(), result.code, result.text, std::move(kept));
                   });
}

void Master::finish_part(int64_t id, const std::string& part, Errc code, const std::string& text,
                         std::vector<Tensor> kept) {
  RunPtr run;
  bool last = false;
  {
    std::lock_guard lock(mutex_);
    auto it = runs_.find(id);
    if (it == runs_.end() || !it->second->open.erase(part)) return;
    run = it->second;
    if (part == process_.task() && code == Errc::ok) run->result.values = std::move(kept);
    last = run->open.empty();
    if (last) runs_.erase(it);
  }
  if (code != Errc::ok) {
    // The first reason stays: what follows are its consequences.
    bool first = false;
    {
      std::lock_guard lock(mutex_);
      first = run->result.code == Errc::ok;
      if (first) run->result = {code, text, {}};
    }
    if (first && !last) abort_run(run, code, text);
  }
  if (last) {
    run->cancellation.reset();
    if (run->result.code != Errc::ok) run->result.values.clear();
    if (process_.tracer().on()) {
      const int64_t end = Tracer::now_ns();
      const auto took =
          std::chrono::duration_cast<std::chrono::nanoseconds>(now() - run->started).count();
      process_.tracer().record("step", detail::concat("run ", id), end - took, end, id);
    }
    run->done(std::move(run->result));
  }
}

void Master::abort_run(const RunPtr& run, Errc code, const std::string& text) {
  std::vector<std::string> open;
  {
    std::lock_guard lock(mutex_);
    if (run->cancelled) return;
    run->cancelled = true;
    if (run->result.code == Errc::ok) run->result = {code, text, {}};
    open.assign(run->open.begin(), run->open.end());
  }
  for (const auto& [task, worker] : run->live->remotes)
    if (std::find(open.begin(), open.end(), task) != open.end()) {
      CancelStep m;
      m.session = session_;
      m.executable = run->live->executable;
      m.run = run->id;
      caf::anon_send(worker, std::move(m));
    }
  run->live->local->cancel(run->id, code, text);
}

void Master::cancel_all(Errc code, const std::string& text) {
  std::vector<RunPtr> runs;
  std::vector<std::function<void(RunResult)>> waiting;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, run] : runs_) runs.push_back(run);
    for (const auto& [id, call] : calls_) {
      for (Waiting& w : call->waiting) waiting.push_back(std::move(w.done));
      call->waiting.clear();
    }
  }
  for (const RunPtr& run : runs) abort_run(run, code, text);
  for (auto& done : waiting) done({code, text, {}});
}

void Master::tick() {
  const auto t = now();
  if (t >= retry_at_) {  // only the actor's thread is here
    retry_at_ = t + kInstallRetry;
    on_orders_from_actor([](MasterState& s) { return s.retry(); });
  }
  std::vector<RunPtr> expired;
  std::vector<std::pair<int64_t, std::string>> lost;  // parts that did not even answer a cancel
  std::vector<std::pair<std::function<void(RunResult)>, std::string>> late;
  std::vector<std::string> stalls;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, run] : runs_) {
      if (t >= run->deadline) {
        if (!run->cancelled) expired.push_back(run);
        if (t >= run->deadline + kInstallTimeout)
          for (const std::string& part : run->open)
            if (part != process_.task()) lost.emplace_back(id, part);
      }
      if (!run->reported && t - run->started >= kStallReport) {
        run->reported = true;
        std::string who;
        for (const std::string& part : run->open) who += (who.empty() ? "" : ", ") + part;
        std::string nodes;
        for (const auto& stage : run->live->local->stages())
          for (const std::string& n : stage->waiting_for(id))
            nodes += (nodes.empty() ? "" : ", ") + n;
        stalls.push_back(detail::concat(
            "no progress for 5 s: run=", id, " waits for ", who,
            nodes.empty() ? "" : "; here for " + nodes, "; ", process_.services().waiting_for(),
            "; a step may just be long: give it a RunOptions::timeout"));
      }
    }
    for (const auto& [id, call] : calls_) {
      for (size_t i = 0; i < call->waiting.size();) {
        if (t < call->waiting[i].deadline) {
          ++i;
          continue;
        }
        std::string missing;
        for (const std::string& task : state_.missing_tasks(id))
          missing += (missing.empty() ? "" : ", ") + task;
        late.emplace_back(std::move(call->waiting[i].done),
                          missing.empty() ? "the call was not installed in time"
                                          : "waited in vain for " + missing + "; start it again");
        call->waiting.erase(call->waiting.begin() + static_cast<ptrdiff_t>(i));
      }
    }
  }
  for (const std::string& line : stalls) process_.log()->warn(line);
  for (const RunPtr& run : expired) {
    std::string who;
    {
      std::lock_guard lock(mutex_);
      for (const std::string& part : run->open) who += (who.empty() ? "" : ", ") + part;
    }
    abort_run(run, Errc::timeout,
              detail::concat("the step did not end in time; it waits for ", who));
  }
  for (const auto& [id, part] : lost)
    finish_part(id, part, Errc::timeout, part + " does not answer", {});
  for (auto& [done, text] : late) done({Errc::peer_lost, text, {}});
}

// For people

std::vector<PlacedNode> Master::placement(int64_t id) const {
  std::lock_guard lock(mutex_);
  const Call& call = *calls_.at(id);
  std::vector<PlacedNode> out;
  for (int32_t n : call.nodes) {
    const Node& node = graph_.node(n);
    out.push_back(
        {node.name, node.op->name, call.placement.devices.at(n), call.placement.reasons.at(n)});
  }
  return out;
}

std::vector<CutEdge> Master::cut_edges(int64_t id) const {
  std::lock_guard lock(mutex_);
  const Call& call = *calls_.at(id);
  std::vector<CutEdge> out;
  for (const Partition& p : call.partitions)
    for (const Edge& edge : p.edges) {
      if (edge.source != p.device) continue;
      CutEdge cut;
      cut.tensor = detail::concat(graph_.node(edge.node).name,
                                  edge.control ? " has run" : detail::concat(":", edge.output));
      cut.source = edge.source;
      cut.destination = edge.destination;
      if (auto it = call.bytes.find(edge.id); it != call.bytes.end()) cut.bytes = it->second;
      if (auto it = call.transfers.find(edge.id); it != call.transfers.end())
        cut.transfers = it->second;
      if (call.local)
        for (const auto& stage : call.local->stages()) {
          const auto bytes = stage->edge_bytes();
          const auto transfers = stage->edge_transfers();
          if (auto it = bytes.find(edge.id); it != bytes.end()) cut.bytes += it->second;
          if (auto it = transfers.find(edge.id); it != transfers.end()) cut.transfers += it->second;
        }
      out.push_back(std::move(cut));
    }
  return out;
}

std::string Master::dot(int64_t id) const {
  std::lock_guard lock(mutex_);
  return to_dot(graph_, calls_.at(id)->placement.devices);
}

std::string Master::describe() const {
  std::lock_guard lock(mutex_);
  return state_.to_text();
}

void Master::start_trace() {
  process_.tracer().take();
  process_.tracer().set(true);
  for (const auto& [task, agent] : agents()) caf::anon_send(agent, SetTracing{true});
}

std::string Master::stop_trace() {
  process_.tracer().set(false);
  std::vector<std::string> parts = {process_.tracer().take()};
  caf::scoped_actor self(process_.system());
  for (const auto& [task, agent] : agents())
    self->request(agent, kInstallTimeout, SetTracing{false})
        .receive([&](const TraceEvents& m) { parts.push_back(m.json); },
                 [&, task = task](const caf::error& e) {
                   process_.log()->warn("trace: no answer: peer={} error={}", task,
                                        from_caf(e).second);
                 });
  return chrome_trace(parts);
}

}  // namespace troupe
