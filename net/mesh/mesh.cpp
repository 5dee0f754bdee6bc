// Start and stop of a mesh, its dialling and accepting, and the forwarding functions of Mesh.
#include "net/mesh/mesh.hpp"

#include <algorithm>

#include <caf/all.hpp>
#include <spdlog/sinks/null_sink.h>

#include "net/wire/address.hpp"
#include "net/link/greetings.hpp"
#include "net/mesh/mesh_core.hpp"

namespace troupe {
namespace {

constexpr size_t kStrangersMax = 64;  // connections that have not greeted yet

// Checks the options on their own. Throws: Error(bad_configuration).
void check(const MeshOptions& options) {
  for (const std::string* name : {&options.cluster, &options.job})
    if (name->empty() || name->size() > kNameMax ||
        name->find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != name->npos)
      throw Error(Errc::bad_configuration, "\"", *name,
                  "\" cannot name a cluster or a job; write up to ", kNameMax,
                  " letters, digits, _ - or .");
  if (options.task < 0)
    throw Error(Errc::bad_configuration, "a task number is not negative, got ", options.task);
  for (const std::string& seed : options.seeds) (void)parse_address(seed);
  const HostPort where = parse_address(options.listen);
  if (!is_loopback(where.host) && !options.insecure)
    throw Error(Errc::bad_configuration, "refusing to listen on ", options.listen,
                ": links beyond loopback are not encrypted, and whoever reaches the port controls "
                "this process; listen on 127.0.0.1, or say --insecure on a network you trust");
  if (is_wildcard(where.host))
    throw Error(
        Errc::bad_configuration, "refusing to listen on ", options.listen,
        ": the other members are told this address, and cannot dial it; give the address of "
        "this machine that they shall use, like 10.0.0.5:7000");
}

MeshOptions complete(MeshOptions options) {
  if (!options.kinds) options.kinds = std::make_shared<const MessageKinds>();
  return options;
}

}  // namespace

std::string task_name(const std::string& job, int32_t task) {
  return detail::concat("/job:", job, "/task:", task);
}

Member member_of(const Hello& hello) {
  return {hello.job, hello.task, hello.incarnation, hello.address};
}

void say_waiting(spdlog::logger& log, const std::string& missing, std::chrono::nanoseconds since) {
  log.warn("waiting for the cluster, start what is missing: missing={} seconds={}", missing,
           std::chrono::round<std::chrono::seconds>(since).count());
}

std::string Member::name() const { return task_name(job, task); }

Mesh::Core::Core(caf::actor_system& system, Transport& transport, Clock& clock, Rng& rng,
                 Doors& doors, MeshOptions options)
    : system_(system),
      transport_(transport),
      clock_(clock),
      doors_(doors),
      options_(complete(std::move(options))),
      log_(options_.log),
      targets_(rng) {
  if (!log_) {
    log_ = std::make_shared<spdlog::logger>("net", std::make_shared<spdlog::sinks::null_sink_mt>());
    log_->set_level(spdlog::level::off);
  }
  self_.cluster = options_.cluster;
  self_.job = options_.job;
  self_.task = options_.task;
  self_.incarnation = options_.incarnation;
  self_.node = node_id_of(system.node());
  self_.fingerprint = options_.fingerprint;
  self_.ops = options_.ops;
  self_.machine = machine_bits();
}

std::string Mesh::Core::start(const caf::actor& agent, MeshListener* listener) {
  check(options_);
  std::string address;
  // On the net thread, so that no connection is accepted before all of this is done.
  transport_.run([&] {
    auto port =
        transport_.listen(options_.listen, [weak = weak_from_this()](ConnectionPtr connection) {
          if (const auto self = weak.lock()) self->accept(std::move(connection));
        });
    address = port->address();
    {
      std::lock_guard lock(mutex_);
      self_.address = address;
    }
    listener_ = listener;
    port_ = std::move(port);
    bridge_ = std::make_unique<CafBridge>(system_, agent, caf_events());
    for (const std::string& seed : options_.seeds)
      if (seed != address) targets_.add_seed(seed, clock_.now());
    log_->info("listening: address={} cluster={} incarnation={}", address, self_.cluster,
               self_.incarnation);
    tick();
  });
  return address;
}

CafBridge::Events Mesh::Core::caf_events() {
  CafBridge::Events out;
  out.on_agent = [gate = gate_, weak = weak_from_this()](const NodeId& node,
                                                         const caf::actor& peer) {
    gate->post([weak, node, peer] {
      if (const auto self = weak.lock()) self->agent_known(node, peer);
    });
  };
  out.on_failed = [gate = gate_, weak = weak_from_this()](const NodeId& node,
                                                          const std::string& reason) {
    gate->post([weak, node, reason] {
      const auto self = weak.lock();
      if (!self) return;
      for (auto& [name, peer] : self->peers_)
        if (peer.link->peer().node == node)
          return peer.link->close("CAF's handshake failed: " + reason);
    });
  };
  return out;
}

void Mesh::Core::stop() {
  transport_.run([&] {
    if (std::exchange(stopped_, true)) return;
    listener_ = nullptr;
    timer_.reset();
    port_.reset();
    for (const auto& link : std::vector(links_)) {
      if (link->state() == Link::State::up) link->send_control(Control::leaving, {});
      link->close_now("this process leaves the cluster");
    }
    targets_.clear();
    if (bridge_) bridge_->stop();
  });
  gate_->shut();
}

// Links

void Mesh::Core::tick() {
  timer_ = clock_.after(kTick, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick();
  });
  const TimePoint now = clock_.now();
  for (const auto& link : std::vector(links_)) link->tick(now);
  if (refused_) return;
  const auto is_linked = [this](const std::string& name) { return peers_.count(name) > 0; };
  for (const std::string& address : targets_.due(now, is_linked)) dial(address);
}

std::shared_ptr<Link> Mesh::Core::open(Link::Role role, ConnectionPtr connection) {
  auto link = std::make_shared<Link>(
      role, std::move(connection), Greeting{GreetingKind::hello, Refusal::none, "", self_}, *this,
      [&transport = transport_](std::function<void()> fn) { transport.post(std::move(fn)); },
      clock_.now());
  links_.push_back(link);
  return link;
}

void Mesh::Core::accept(ConnectionPtr connection) {
  const auto strangers = std::count_if(links_.begin(), links_.end(), [](const auto& l) {
    return l->role() == Link::Role::acceptor && l->state() != Link::State::up;
  });
  if (stopped_ || strangers >= static_cast<int64_t>(kStrangersMax)) return connection->close();
  open(Link::Role::acceptor, std::move(connection))->start();
}

void Mesh::Core::dial(const std::string& address) {
  transport_.dial(
      address, kDialTimeout,
      [weak = weak_from_this(), address](ConnectionPtr connection, const std::string& reason) {
        const auto self = weak.lock();
        if (connection && (!self || self->stopped_ || !self->targets_.has(address)))
          return connection->close();
        if (!self || self->stopped_) return;
        if (connection) {
          const auto link = self->open(Link::Role::dialler, std::move(connection));
          self->targets_.connected(address, link);
          return link->start();
        }
        if (self->targets_.failed(address, self->clock_.now()))
          self->log_->info("still waiting for a seed: address={} error={}", address, reason);
      });
}

// Mesh

Mesh::Mesh(caf::actor_system& system, Transport& transport, Clock& clock, Rng& rng, Doors& doors,
           MeshOptions options)
    : core_(std::make_shared<Core>(system, transport, clock, rng, doors, std::move(options))) {}
Mesh::~Mesh() { stop(); }
std::string Mesh::start(const caf::actor& agent, MeshListener* listener) {
  return core_->start(agent, listener);
}
void Mesh::stop() { core_->stop(); }
std::vector<std::string> Mesh::waiting_for(const std::vector<std::string>& tasks) const {
  std::vector<std::string> out;
  for (const std::string& task : tasks)
    if (!core_->is_up(task)) out.push_back(task);
  return out;
}
std::vector<std::string> Mesh::heard_of() const { return core_->heard_of(); }
caf::strong_actor_ptr Mesh::proxy(const std::string& task, uint64_t actor_id) {
  return core_->proxy(task, actor_id);
}
std::map<std::string, PeerStats> Mesh::stats() const { return core_->stats(); }
int64_t Mesh::dropped() const { return core_->dropped(); }

}  // namespace troupe
