// The services of a process: parameters as kernels see them, and the shards that live here.
#include "training/group/services.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "actors/async/guard.hpp"
#include "actors/async/messages.hpp"
#include "actors/cluster/process.hpp"
#include "graph/base/mutant.hpp"
#include "training/control/messages.hpp"
#include "training/input/input_service.hpp"
#include "training/parameters/messages.hpp"
#include "training/group/parameter_group.hpp"
#include "training/parameters/parameter_client.hpp"
#include "training/shards/shard_actor.hpp"

namespace troupe {
namespace {

// Requests without an answer are sent again in this interval.
constexpr std::chrono::milliseconds kResendTick{500};

// Takes the answers of shards for one client. Only stores and signals.
class ClientDoor final : public caf::monitorable_actor {
 public:
  ClientDoor(caf::actor_config& config, std::weak_ptr<ParameterClient> client)
      : monitorable_actor(config), client_(std::move(client)) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) override {
    auto& content = message->content();
    const bool pulled = content.match_elements<Pulled>(),
               acknowledged = content.match_elements<Acknowledged>();
    if (pulled || acknowledged) {
      auto client = client_.lock();
      if (!client) return;
      if (pulled)
        client->on(content.get_as<Pulled>(0));
      else
        client->on(content.get_as<Acknowledged>(0));
    } else if (!handle_system_message(*message, unit, false)) {
      bounce(message, make_error(caf::sec::unexpected_message));
    }
  }
  const char* name() const override { return "parameter door"; }
  void retire() { cleanup(caf::error{}, nullptr); }

 private:
  const std::weak_ptr<ParameterClient> client_;
};

using TickingService = ParameterService::extend<caf::reacts_to<caf::tick_atom>>;

ParameterRoutes routes_of(const RouteParameters& m, Process& process) {
  ParameterRoutes out;
  out.epoch = m.epoch;
  const CodecList gradients(m.compression.gradients), values(m.compression.values);
  values.want_values("a route");
  for (size_t i = 0; i < m.slices.size(); ++i) {
    const SliceSpec& spec = m.slices[i];
    ParameterRoute& route = out.parameters[spec.parameter];
    const auto dtype = static_cast<DType>(spec.dtype);  // set_routes() looks at the numbers
    const CodedParameter coded{spec.parameter, dtype, !spec.optimizer.empty()};
    if (route.slices.empty())
      route = {dtype,
               Shape(spec.shape),
               {},
               gradients.of(coded),
               values.of(coded),
               m.compression.seed,
               m.compression.plan,
               from_spec(spec).optimizer,
               !spec.table.empty()};
    else if (dtype != route.dtype || Shape(spec.shape) != route.shape ||
             spec.table.empty() == route.table)
      throw Error(Errc::invalid_argument, "the slices of ", spec.parameter,
                  " differ in dtype or shape");
    SliceRoute slice;
    slice.slice = spec.slice;
    slice.offset = spec.offset;
    slice.size = spec.size;
    slice.task = m.tasks.at(i);
    slice.local = slice.task == process.task();
    slice.shard = process.remote<ShardDoor>(slice.task, m.doors.at(i));
    if (slice.local && slice.shard) slice.here = local_shard(slice.shard);
    if (!slice.shard)
      throw Error(Errc::peer_lost, "no link to ", slice.task, ", which holds ", spec.parameter);
    route.slices.push_back(std::move(slice));
  }
  return out;
}

class Services final : public ProcessServices {
 public:
  Services(Process& process, ShardSeams seams)
      : process_(process),
        inputs_(process),
        on_client_(seams.on_client),
        shards_(spawn_shard_service(process, std::move(seams))) {
    parameters_ = process.system().spawn(
        [this](TickingService::pointer self) -> TickingService::behavior_type {
          self->set_exception_handler(to_error);
          self->delayed_send(self, kResendTick, caf::tick_atom_v);
          return {[this, self](const RouteParameters& m) {
                    return answer([&] {
                      const auto& from = self->current_sender();
                      if (!from) throw without_sender();
                      process_.hold(m.session, from->node());
                      set_routes(*client(m.session), m);
                      return caf::unit;
                    });
                  },
                  [this](const LinkLost& m) {
                    for (const auto& c : clients()) c->peer_down(m.task, m.reason);
                    lose_routes(m.task);
                  },
                  [this, self](caf::tick_atom) {
                    find_again();
                    for (const auto& c : clients()) c->resend(self->system().clock().now());
                    self->delayed_send(self, kResendTick, caf::tick_atom_v);
                  }};
        });
    process.track(shards_);
    process.track(parameters_);
  }
  void stop() override {
    inputs_.stop();
    for (const auto& c : clients()) c->fail_all(Errc::cancelled, "the process is ending");
    {
      std::lock_guard lock(mutex_);
      for (auto& [session, entry] : clients_) retire(entry);
    }
    std::lock_guard lock(mutex_);
    caf::anon_send_exit(parameters_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(shards_, caf::exit_reason::user_shutdown);
    shards_ = nullptr;
    parameters_ = nullptr;
    offered_.clear();
  }

  ParameterPort* port(uint64_t session) override { return client(session).get(); }
  InputPort* input(uint64_t session) override { return inputs_.port(session); }
  void forget(uint64_t session) override {
    inputs_.forget(session);
    // The session's own container ends with it; one with a name of its own is shared, and stays.
    std::shared_ptr<ParameterClient> gone;
    {
      std::lock_guard lock(mutex_);
      if (shards_) caf::send_as(shards_, shards_, DropContainer{own_container(session)});
      auto it = clients_.find(session);
      if (it == clients_.end()) return;
      gone = it->second.client;
      retire(it->second);
      // The client itself stays until the process ends: a kernel of a step that is ending may still
      // hold its port.
      retired_.push_back(std::move(it->second.client));
      clients_.erase(it);
    }
    gone->retire(Errc::cancelled, "the session has ended");
  }
  caf::actor actor(const std::string& name) override {
    if (name == "input") return inputs_.actor();
    std::lock_guard lock(mutex_);
    if (name == "shards") return caf::actor_cast<caf::actor>(shards_);
    if (name == "parameters") return caf::actor_cast<caf::actor>(parameters_);
    const auto offered = offered_.find(name);
    return offered == offered_.end() ? caf::actor() : offered->second;
  }
  void offer(const std::string& name, caf::actor actor) override {
    std::lock_guard lock(mutex_);
    if (shards_) offered_[name] = std::move(actor);
  }
  // The caller may be the network thread, and the ends of requests do work.
  void peer_down(const std::string& task, const std::string& reason) override {
    std::lock_guard lock(mutex_);
    if (parameters_) caf::anon_send(parameters_, LinkLost{task, reason});
  }
  std::string waiting_for() override {
    std::string out = inputs_.waiting_for();
    for (const auto& c : clients())
      if (const std::string text = c->waiting_for(); !text.empty())
        out += (out.empty() ? "" : "; ") + text;
    return out;
  }

 private:
  struct Routes {
    std::shared_ptr<const RouteParameters> newest;
    bool lost = false;  // since then, the link to one of its tasks
  };
  struct Entry {
    std::shared_ptr<ParameterClient> client;
    ParameterDoor door;
    Routes routes;
  };

  std::shared_ptr<ParameterClient> client(uint64_t session) {
    std::lock_guard lock(mutex_);
    Entry& entry = clients_[session];
    if (!entry.client) {
      auto& system = process_.system();
      entry.client = std::make_shared<ParameterClient>(
          system,
          [&device = process_.cpu()](DType dtype, const Shape& shape) {
            return device.memory().make(dtype, shape);
          },
          process_.incarnation(), !process_.simulated());
      entry.client->set_tracer(&process_.tracer());
      if (on_client_) on_client_(session, *entry.client);
      caf::actor_config config;
      entry.door = caf::make_actor<ClientDoor, ParameterDoor>(
          system.next_actor_id(), system.node(), &system, config,
          std::weak_ptr<ParameterClient>(entry.client));
      entry.client->set_door(entry.door);
      process_.open_door(caf::actor_cast<caf::strong_actor_ptr>(entry.door));
    }
    return entry.client;
  }
  std::vector<std::shared_ptr<ParameterClient>> clients() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<ParameterClient>> out;
    for (const auto& [session, entry] : clients_) out.push_back(entry.client);
    return out;
  }
  void set_routes(ParameterClient& of, const RouteParameters& m) {
    of.set_routes(routes_of(m, process_));
    std::lock_guard lock(mutex_);
    const auto entry = clients_.find(m.session);
    if (entry == clients_.end()) return;  // forgotten meanwhile
    auto& [newest, lost] = entry->second.routes;
    if (newest && m.epoch < newest->epoch) return;  // an old message
    newest = std::make_shared<const RouteParameters>(m);
    lost = false;
  }
  // Routes that were set while a process was being replaced lead to the link of its predecessor.
  // The group does not send them again, as it has lost no link.
  void lose_routes(const std::string& task) {
    std::lock_guard lock(mutex_);
    for (auto& [session, entry] : clients_) {
      Routes& r = entry.routes;
      r.lost |= r.newest && std::count(r.newest->tasks.begin(), r.newest->tasks.end(), task) > 0;
    }
  }
  void find_again() {
    std::vector<std::pair<std::shared_ptr<ParameterClient>, Routes>> lost;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [session, entry] : clients_)
        if (entry.routes.lost && !mutant(Mutant::routes_not_found_again))
          lost.emplace_back(entry.client, entry.routes);
    }
    for (const auto& [client, routes] : lost) try {
        set_routes(*client, *routes.newest);
      } catch (const Error&) {  // there is no link yet
      }
  }
  void retire(Entry& entry) {
    process_.close_door(entry.door.id());
    static_cast<ClientDoor*>(caf::actor_cast<caf::abstract_actor*>(entry.door))->retire();
  }

  Process& process_;
  Inputs inputs_;
  const std::function<void(uint64_t, ParameterClient&)> on_client_;
  mutable std::mutex mutex_;  // guards the rest
  ShardService shards_;
  ParameterService parameters_;
  std::map<std::string, caf::actor> offered_;
  std::map<uint64_t, Entry> clients_;
  std::vector<std::shared_ptr<ParameterClient>> retired_;
};

}  // namespace

void TrainingServices::add_messages(caf::actor_system_config& config, MessageKinds& kinds) const {
  add_parameter_messages(kinds);
  add_parameter_messages(config);
  add_input_messages(config);
  add_training_messages(config);
}

std::unique_ptr<ProcessServices> TrainingServices::make_services(Process& process) const {
  return std::make_unique<Services>(process, seams_);
}

std::unique_ptr<ParameterOwner> TrainingServices::make_parameter_owner(
    Master& master, ParameterOwnerOptions options) const {
  return own_parameters(master, std::move(options), seams_.disk);
}

const ServicesFactory& training_services() {
  static const TrainingServices services;
  return services;
}

}  // namespace troupe
