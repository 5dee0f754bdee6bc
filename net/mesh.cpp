// Implements net/mesh.hpp: who to dial, whom to let in, whom to tell.
#include "net/mesh.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include <caf/all.hpp>
#include <spdlog/sinks/null_sink.h>

#include "net/address.hpp"
#include "net/caf_bridge.hpp"
#include "net/greetings.hpp"
#include "net/link.hpp"
#include "net/peer_port.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr size_t kMembersMax = 1024;  // of a cluster
constexpr size_t kStrangersMax = 64;  // connections that have not greeted yet
constexpr size_t kTargetsMax = 2 * kMembersMax;
constexpr size_t kNewestMax = 1 << 16;  // remembered incarnations
constexpr auto kBackoffFirst = 100ms, kBackoffSeedMax = 2000ms, kBackoffMax = 30'000ms;
constexpr auto kCourtesy = 300ms;    // the larger name leaves the first dial to the smaller one
constexpr auto kForgetAfter = 600s;  // a lost member that is no seed is not dialled any longer
// A process whose peer was heard this recently is alive; another one cannot take its task. Longer
// than a heartbeat and a tick.
constexpr auto kAliveWithin = 800ms;
constexpr auto kTakenPatience = 3s;  // for a task that seems taken; longer than kSilenceMax
constexpr auto kReserved = 30s;      // a drawn task number stays reserved
constexpr auto kSeedReminder = 10s;  // between log lines about a seed that is not there

std::string task_name(const std::string& job, int32_t task) {
  return detail::concat("/job:", job, "/task:", task);
}

Member member_of(const Hello& hello) {
  return {hello.job, hello.task, hello.incarnation, hello.address};
}

}  // namespace

std::string Member::name() const { return task_name(job, task); }

// Core

// The way from CAF's threads to the net thread, until it is shut: nothing of CAF's may wait there
// when the actor system ends.
class Gate {
 public:
  explicit Gate(Transport& transport) : transport_(transport) {}
  void post(std::function<void()> fn) {
    std::lock_guard lock(mutex_);
    if (!shut_) transport_.post(std::move(fn));
  }
  void shut() {
    {
      std::lock_guard lock(mutex_);
      shut_ = true;
    }
    transport_.run([] {});  // what was posted before has run
  }

 private:
  Transport& transport_;
  std::mutex mutex_;
  bool shut_ = false;
};

class Mesh::Core final : public LinkHost, public std::enable_shared_from_this<Mesh::Core> {
 public:
  Core(caf::actor_system& system, Transport& transport, Clock& clock, Rng& rng, Doors& doors,
       MeshOptions options);

  std::string start(const caf::actor& agent, MeshListener* listener);
  void stop();

  Greeting judge(Link& link, const Greeting& theirs) override;
  void established(Link& link) override;
  void control(Link& link, Control type, std::span<const std::byte> payload) override;
  void caf_bytes(Link& link, std::span<const std::byte> bytes) override;
  void message(Link& link, uint64_t target, uint64_t sender, PlaneMessage message) override;
  Tensor allocate(DType dtype, const Shape& shape) override {
    return options_.allocate ? options_.allocate(dtype, shape) : Tensor::empty(dtype, shape);
  }
  void closed(Link& link, const std::string& reason, Refusal refusal) override;

  // A member with an established link.
  struct Peer {
    Member member;
    std::shared_ptr<Link> link;
    std::shared_ptr<PeerPort> port;
    std::shared_ptr<CafChannel> caf;
    caf::actor agent;  // set once announced
    bool announced = false, leaving = false;
  };

  // Any thread.
  Member self() const {
    std::lock_guard lock(mutex_);
    return member_of(self_);
  }
  std::vector<Member> members() const;
  bool is_up(const std::string& task) const;
  caf::strong_actor_ptr proxy(const std::string& task, uint64_t actor_id);
  caf::strong_actor_ptr proxy(const caf::strong_actor_ptr& actor);
  std::map<std::string, PeerStats> stats() const;
  std::map<int32_t, int64_t> edge_bytes(uint64_t session, uint32_t executable) const;
  int64_t dropped() const { return dropped_->load(std::memory_order_relaxed); }

 private:
  // An address that is dialled until there is a link.
  struct Target {
    std::string name;  // of the member there, once known
    bool seed = false, dialling = false;
    TimePoint next{}, since{}, told{};
    std::chrono::milliseconds backoff = kBackoffFirst;
    std::weak_ptr<Link> link;
    std::optional<TimePoint> taken_since;
  };

  void tick();
  void accept(ConnectionPtr connection);
  std::shared_ptr<Link> open(Link::Role role, ConnectionPtr connection);
  void dial_due(TimePoint now);
  void dial(const std::string& address);
  void retry(Target& target);
  void add_target(const std::string& address, const std::string& name,
                  std::chrono::milliseconds delay);
  void dial_failed(const Link& link, const std::string& reason, Refusal refusal);
  void refused(const std::string& address, const std::string& reason);
  Greeting answer_task(const Hello& asker);
  void learn(std::span<const std::byte> payload);
  void tell_members(Link& link, const std::vector<Member>& list);
  void agent_known(const NodeId& node, const caf::actor& agent);
  void drop(const std::string& name, const std::string& reason);
  bool is_linked(const Target& target) const {
    return !target.name.empty() && peers_.count(target.name) > 0;
  }
  Peer* find(const Link& link) {
    const auto it = peers_.find(link.peer().name());
    return it != peers_.end() && it->second.link.get() == &link ? &it->second : nullptr;
  }

  caf::actor_system& system_;
  Transport& transport_;
  Clock& clock_;
  Rng& rng_;
  Doors& doors_;
  const MeshOptions options_;
  std::shared_ptr<spdlog::logger> log_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>(transport_);
  const std::shared_ptr<std::atomic<int64_t>> dropped_ = std::make_shared<std::atomic<int64_t>>(0);

  // Net thread.
  MeshListener* listener_ = nullptr;
  std::unique_ptr<Listener> port_;
  std::unique_ptr<CafBridge> bridge_;
  TimerPtr timer_;
  std::vector<std::shared_ptr<Link>> links_;   // all that are open, oldest first
  std::map<std::string, Target> targets_;      // by address
  std::map<std::string, uint64_t> newest_;     // incarnation, by name
  std::map<std::string, TimePoint> reserved_;  // drawn task names and until when
  TimePoint warned_{};
  bool refused_ = false, stopped_ = false;

  mutable std::mutex mutex_;  // guards the rest; written on the net thread only
  Hello self_;
  std::map<std::string, Peer> peers_;  // by name
  std::map<std::tuple<uint64_t, uint32_t, int32_t>, int64_t>
      past_edge_bytes_;  // of links that have ended
};

Mesh::Core::Core(caf::actor_system& system, Transport& transport, Clock& clock, Rng& rng,
                 Doors& doors, MeshOptions options)
    : system_(system),
      transport_(transport),
      clock_(clock),
      rng_(rng),
      doors_(doors),
      options_(std::move(options)),
      log_(options_.log) {
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
  self_.machine = machine_bits();
}

std::string Mesh::Core::start(const caf::actor& agent, MeshListener* listener) {
  for (const std::string* name : {&options_.cluster, &options_.job})
    if (name->empty() || name->size() > kNameMax ||
        name->find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != name->npos)
      throw Error(Errc::bad_configuration, "\"", *name,
                  "\" cannot name a cluster or a job; write up to ", kNameMax,
                  " letters, digits, _ - or .");
  if (options_.task < 0)
    throw Error(Errc::bad_configuration, "a task number is not negative, got ", options_.task);
  for (const std::string& seed : options_.seeds) (void)parse_address(seed);
  const HostPort where = parse_address(options_.listen);
  if (!is_loopback(where.host) && !options_.insecure)
    throw Error(Errc::bad_configuration, "refusing to listen on ", options_.listen,
                ": links beyond loopback are not encrypted, and whoever reaches the port controls "
                "this process; listen on "
                "127.0.0.1, or say --insecure on a network you trust");
  std::string address;
  // On the net thread, so that nobody is accepted before all of this is done.
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
    CafBridge::Events events;
    events.on_agent = [gate = gate_, weak = weak_from_this()](const NodeId& node,
                                                              const caf::actor& peer) {
      gate->post([weak, node, peer] {
        if (const auto self = weak.lock()) self->agent_known(node, peer);
      });
    };
    events.on_failed = [gate = gate_, weak = weak_from_this()](const NodeId& node,
                                                               const std::string& reason) {
      gate->post([weak, node, reason] {
        const auto self = weak.lock();
        if (!self) return;
        for (auto& [name, peer] : self->peers_)
          if (peer.link->peer().node == node)
            return peer.link->close("CAF's handshake failed: " + reason);
      });
    };
    bridge_ = std::make_unique<CafBridge>(system_, agent, std::move(events));
    for (const std::string& seed : options_.seeds) {
      if (seed == address) continue;
      Target& target = targets_[seed];
      target.seed = true;
      target.next = target.told = clock_.now();
    }
    log_->info("listening: address={} cluster={} incarnation={}", address, self_.cluster,
               self_.incarnation);
    tick();
  });
  return address;
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
  dial_due(now);
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

void Mesh::Core::dial_due(TimePoint now) {
  std::vector<std::string> due;
  for (auto it = targets_.begin(); it != targets_.end();) {
    Target& target = it->second;
    if (is_linked(target)) {
      target.since = now;
      target.backoff = kBackoffFirst;
    } else if (!target.seed && now - target.since > kForgetAfter) {
      it = targets_.erase(it);
      continue;
    } else if (!target.dialling && now >= target.next && !refused_) {
      due.push_back(it->first);
    }
    ++it;
  }
  for (const std::string& address : due) dial(address);
}

void Mesh::Core::dial(const std::string& address) {
  Target& target = targets_[address];
  target.dialling = true;
  transport_.dial(
      address, kDialTimeout,
      [weak = weak_from_this(), address](ConnectionPtr connection, const std::string& reason) {
        const auto self = weak.lock();
        if (!self || self->stopped_) {
          if (connection) connection->close();
          return;
        }
        const auto it = self->targets_.find(address);
        if (it == self->targets_.end()) {
          if (connection) connection->close();
          return;
        }
        Target& target = it->second;
        if (connection) {
          const auto link = self->open(Link::Role::dialler, std::move(connection));
          target.link = link;
          link->start();
          return;
        }
        target.dialling = false;
        const TimePoint now = self->clock_.now();
        if (target.seed && now - target.told >= kSeedReminder) {
          target.told = now;
          self->log_->info("still waiting for a seed: address={} error={}", address, reason);
        }
        self->retry(target);
      });
}

void Mesh::Core::retry(Target& target) {
  // Between 0.75 and 1.25 of the backoff, so that processes that lost each other together do not
  // come back together.
  const auto jitter = target.backoff * (768 + static_cast<int64_t>(rng_.next() % 512)) / 1024;
  target.next = clock_.now() + jitter;
  target.backoff = std::min<std::chrono::milliseconds>(2 * target.backoff,
                                                       target.seed ? kBackoffSeedMax : kBackoffMax);
}

void Mesh::Core::add_target(const std::string& address, const std::string& name,
                            std::chrono::milliseconds delay) {
  auto it = targets_.find(address);
  if (it == targets_.end()) {
    if (targets_.size() >= kTargetsMax) return;
    it = targets_.emplace(address, Target{}).first;
    it->second.since = clock_.now();
  }
  it->second.name = name;
  it->second.backoff = kBackoffFirst;
  it->second.next = clock_.now() + delay;
}

// Membership

Greeting Mesh::Core::judge(Link& link, const Greeting& theirs) {
  const Hello& h = theirs.hello;
  if (theirs.kind == GreetingKind::ask_task) return answer_task(h);
  if (theirs.kind != GreetingKind::hello)
    return refusal(self_, Refusal::malformed, "that was not asked");
  if (auto no = misfit(self_, h)) return *no;
  const std::string name = h.name();
  const bool dialler = link.role() == Link::Role::dialler;
  if (h.node == self_.node)
    return h.incarnation == self_.incarnation && name == self_.name()
               ? refusal(self_, Refusal::itself, "that is ourselves")
               : refusal(self_, Refusal::same_node,
                         detail::concat(name, " has the node id of ", self_.name(),
                                        "; start it again"));
  const auto taken = [&](const std::string& address) {
    return refusal(self_, Refusal::task_taken,
                   detail::concat(name, " runs already, at ", address,
                                  "; give this process another task number, or stop that one"));
  };
  if (name == self_.name()) return taken(self_.address);
  if (const auto known = newest_.find(name);
      known != newest_.end() && h.incarnation < known->second)
    return refusal(self_, Refusal::stale_incarnation,
                   detail::concat(name, " was started anew meanwhile; this is its incarnation ",
                                  h.incarnation, ", the newest is ", known->second));
  if (const auto it = peers_.find(name); it != peers_.end()) {
    Peer& peer = it->second;
    if (peer.member.incarnation == h.incarnation && peer.link->peer().node == h.node)
      return refusal(self_, Refusal::linked, "there is a link already");
    if (clock_.now() - peer.link->last_heard() < kAliveWithin ||
        peer.member.incarnation == h.incarnation)
      return taken(peer.member.address);
    peer.link->close_now(
        detail::concat("incarnation ", h.incarnation, " of ", name, " takes its place"));
  }
  for (const auto& [other, peer] : peers_)
    if (peer.link->peer().node == h.node)
      return refusal(self_, Refusal::same_node,
                     detail::concat(name, " has the node id of ", other, "; start it again"));
  if (peers_.size() >= kMembersMax)
    return refusal(self_, Refusal::busy,
                   detail::concat("the cluster has ", kMembersMax, " members, its limit"));
  // Both may have dialled at once. The dialler decides, and both decide alike: the smaller name's
  // dial lives.
  if (dialler)
    for (const auto& other : std::vector(links_)) {
      if (other->state() != Link::State::provisional || other->peer().name() != name) continue;
      if (name < self_.name())
        return refusal(self_, Refusal::linked, "the other side's dial goes first");
      other->close_now("our dial goes first", Refusal::linked);
    }
  return {GreetingKind::hello, Refusal::none, "", self_};
}

Greeting Mesh::Core::answer_task(const Hello& asker) {
  if (auto no = misfit(self_, asker)) return *no;
  // The oldest member draws, so that two askers get different numbers.
  Member oldest = member_of(self_);
  for (const auto& [name, peer] : peers_)
    if (std::pair(peer.member.incarnation, peer.member.name()) <
        std::pair(oldest.incarnation, oldest.name()))
      oldest = peer.member;
  Greeting out{GreetingKind::redirect, Refusal::none, "", self_};
  out.hello.address = oldest.address;
  if (oldest.name() != self_.name()) return out;
  const TimePoint now = clock_.now();
  std::erase_if(reserved_, [&](const auto& r) { return r.second <= now; });
  for (int32_t task = 0;; ++task) {
    const std::string name = task_name(asker.job, task);
    if (name == self_.name() || peers_.count(name) || reserved_.count(name)) continue;
    if (static_cast<size_t>(task) > kMembersMax)
      return refusal(self_, Refusal::busy, "too many tasks ask for a number");
    reserved_[name] = now + kReserved;
    out.kind = GreetingKind::assigned;
    out.hello.job = asker.job;
    out.hello.task = task;
    return out;
  }
}

void Mesh::Core::established(Link& link) {
  const Hello& h = link.peer();
  const std::string name = h.name();
  if (peers_.count(name)) return link.close_now("there is a link already", Refusal::linked);
  Peer peer;
  peer.member = member_of(h);
  peer.link = link.shared_from_this();
  peer.port = std::make_shared<PeerPort>(system_, transport_, peer.link, dropped_);
  const auto port = peer.port;
  {
    std::lock_guard lock(mutex_);
    peers_.emplace(name, std::move(peer));
  }
  if (newest_.size() >= kNewestMax)
    std::erase_if(newest_, [&](const auto& n) { return !peers_.count(n.first); });
  newest_[name] = h.incarnation;
  for (auto& [address, target] : targets_)
    if (target.link.lock().get() == &link || address == h.address) target.name = name;
  if (!h.address.empty() && !targets_.count(h.address)) add_target(h.address, name, kBackoffFirst);
  log_->debug("link established: peer={} address={} incarnation={}", name, h.address,
              h.incarnation);
  peers_.at(name).caf = bridge_->attach(link.shared_from_this());

  std::vector<Member> others;
  const Member newcomer = member_of(h);
  for (const auto& [other, p] : peers_) {
    if (other == name) continue;
    others.push_back(p.member);
    tell_members(*p.link, {newcomer});
  }
  tell_members(link, others);
}

void Mesh::Core::tell_members(Link& link, const std::vector<Member>& list) {
  constexpr size_t kPerFrame = 256;  // at most 264 bytes each
  for (size_t at = 0; at < list.size(); at += kPerFrame) {
    std::vector<std::byte> payload;
    Writer out(payload);
    const size_t count = std::min(kPerFrame, list.size() - at);
    out.number(static_cast<uint32_t>(count));
    for (size_t i = at; i < at + count; ++i) {
      out.text(list[i].job);
      out.number(list[i].task);
      out.number(list[i].incarnation);
      out.text(list[i].address);
    }
    link.send_control(Control::members, payload);
  }
}

void Mesh::Core::learn(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto count = in.number<uint32_t>();
  for (uint32_t i = 0; i < count && in.good(); ++i) {
    Member m;
    m.job = in.text(kNameMax);
    m.task = in.number<int32_t>();
    m.incarnation = in.number<uint64_t>();
    m.address = in.text(kAddressMax);
    if (!in.good() || m.address.empty()) return;
    const std::string name = m.name();
    if (name == self_.name() || peers_.count(name)) continue;
    if (const auto known = newest_.find(name);
        known != newest_.end() && m.incarnation < known->second)
      continue;
    add_target(m.address, name, self_.name() < name ? 0ms : kCourtesy);
  }
}

void Mesh::Core::control(Link& link, Control type, std::span<const std::byte> payload) {
  Peer* peer = find(link);
  if (!peer) return;
  if (type == Control::members) return learn(payload);
  peer->leaving = true;
  link.close_now("it left the cluster");
}

void Mesh::Core::caf_bytes(Link& link, std::span<const std::byte> bytes) {
  Peer* peer = find(link);
  if (peer && peer->caf) peer->caf->feed(bytes);
}

void Mesh::Core::message(Link& link, uint64_t target, uint64_t sender, PlaneMessage message) {
  Peer* peer = find(link);
  if (!peer) return;
  const caf::strong_actor_ptr door = doors_.find(target);
  if (!door) {
    dropped_->fetch_add(1, std::memory_order_relaxed);
    log_->debug("message for an actor that is not there: peer={} actor={} kind={}",
                peer->member.name(), target, message.index());
    if (sender)
      if (const auto answer = refusal_of(
              message, Errc::stale, detail::concat("actor ", target, " is not in ", self_.name())))
        link.send(sender, target, *answer);
    return;
  }
  caf::strong_actor_ptr from = sender ? peer->port->proxy(sender) : nullptr;
  door->enqueue(std::move(from), caf::make_message_id(), to_caf_message(std::move(message)),
                nullptr);
}

void Mesh::Core::agent_known(const NodeId& node, const caf::actor& agent) {
  if (stopped_) return;
  for (auto& [name, peer] : peers_) {
    if (peer.link->peer().node != node || peer.announced) continue;
    {
      std::lock_guard lock(mutex_);
      peer.announced = true;
      peer.agent = agent;
    }
    log_->info("peer up: peer={} address={} incarnation={}", name, peer.member.address,
               peer.member.incarnation);
    const Member member = peer.member;
    if (listener_) listener_->up(member, agent);
    return;
  }
}

void Mesh::Core::closed(Link& link, const std::string& reason, Refusal why) {
  const std::shared_ptr<Link> self = link.shared_from_this();
  std::erase(links_, self);
  if (find(link)) drop(link.peer().name(), reason);
  if (link.role() == Link::Role::dialler) {
    dial_failed(link, reason, why);
  } else if (why != Refusal::none && why != Refusal::linked && clock_.now() - warned_ >= 1s) {
    warned_ = clock_.now();  // strangers must not fill the log
    log_->warn("refused a connection: peer={} reason={} text={}", link.label(), to_string(why),
               reason);
  }
}

void Mesh::Core::drop(const std::string& name, const std::string& reason) {
  Peer peer;
  {
    std::lock_guard lock(mutex_);
    const auto it = peers_.find(name);
    peer = std::move(it->second);
    peers_.erase(it);
    for (const auto& [edge, bytes] : peer.link->edge_bytes())
      if (past_edge_bytes_.size() < kEdgesMax || past_edge_bytes_.count(edge))
        past_edge_bytes_[edge] += bytes;
  }
  const TimePoint now = clock_.now();
  for (auto it = targets_.begin(); it != targets_.end();) {
    if (it->second.name == name && peer.leaving && !it->second.seed) {
      it = targets_.erase(it);
      continue;
    }
    if (it->second.name == name) it->second.since = now, it->second.next = now + kBackoffFirst;
    ++it;
  }
  if (peer.announced) log_->info("peer down: peer={} reason={}", name, reason);
  if (peer.caf) peer.caf->closed();
  if (peer.announced && listener_) listener_->down(peer.member, reason);
  peer.port->shut();
}

void Mesh::Core::dial_failed(const Link& link, const std::string& reason, Refusal why) {
  for (auto it = targets_.begin(); it != targets_.end(); ++it) {
    Target& target = it->second;
    if (target.link.lock().get() != &link) continue;
    target.link.reset();
    target.dialling = false;
    if (why == Refusal::linked || why == Refusal::none)
      target.name = link.peer().job.empty() ? target.name : link.peer().name();
    if (why == Refusal::itself) {
      targets_.erase(it);
      return;
    }
    if (why != Refusal::task_taken) target.taken_since.reset();
    retry(target);
    const TimePoint now = clock_.now();
    if (why == Refusal::task_taken && !target.taken_since) target.taken_since = now;
    if (is_final(why) || (target.taken_since && now - *target.taken_since > kTakenPatience))
      refused(it->first, reason);
    return;
  }
}

void Mesh::Core::refused(const std::string& address, const std::string& reason) {
  if (std::exchange(refused_, true)) return;
  const std::string text = detail::concat(address, " refuses this process: ", reason);
  log_->error("refused: address={} reason={}", address, reason);
  if (listener_) listener_->refused(Errc::bad_configuration, text);
}

// Questions

std::vector<Member> Mesh::Core::members() const {
  std::lock_guard lock(mutex_);
  std::vector<Member> out = {member_of(self_)};
  for (const auto& [name, peer] : peers_)
    if (peer.announced) out.push_back(peer.member);
  return out;
}

bool Mesh::Core::is_up(const std::string& task) const {
  std::lock_guard lock(mutex_);
  const auto it = peers_.find(task);
  return task == self_.name() || (it != peers_.end() && it->second.announced);
}

caf::strong_actor_ptr Mesh::Core::proxy(const std::string& task, uint64_t actor_id) {
  std::shared_ptr<PeerPort> port;
  {
    std::lock_guard lock(mutex_);
    const auto it = peers_.find(task);
    if (it != peers_.end()) port = it->second.port;
  }
  return port ? port->proxy(actor_id) : nullptr;
}

caf::strong_actor_ptr Mesh::Core::proxy(const caf::strong_actor_ptr& actor) {
  if (!actor || actor->node() == system_.node()) return actor;
  std::shared_ptr<PeerPort> port;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, peer] : peers_)
      if (peer.port->node() == actor->node()) port = peer.port;
  }
  if (!port) return nullptr;
  return port->proxy(actor->id(), actor);
}

std::map<std::string, PeerStats> Mesh::Core::stats() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, PeerStats> out;
  for (const auto& [name, peer] : peers_) {
    const LinkStats s = peer.link->stats();
    PeerStats& p = out[name];
    for (int c = 0; c < kChannels; ++c) {
      p.bytes_in += s.bytes_in[c];
      p.bytes_out += s.bytes_out[c];
    }
    p.messages_in = s.messages_in;
    p.messages_out = s.messages_out;
    p.queued_bytes = s.queued_bytes;
  }
  return out;
}

std::map<int32_t, int64_t> Mesh::Core::edge_bytes(uint64_t session, uint32_t executable) const {
  std::map<int32_t, int64_t> out;
  const auto add = [&](const auto& edges) {
    for (const auto& [key, bytes] : edges)
      if (std::get<0>(key) == session && std::get<1>(key) == executable)
        out[std::get<2>(key)] += bytes;
  };
  std::lock_guard lock(mutex_);
  add(past_edge_bytes_);
  for (const auto& [name, peer] : peers_) add(peer.link->edge_bytes());
  return out;
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
Member Mesh::self() const { return core_->self(); }
std::vector<Member> Mesh::members() const { return core_->members(); }
bool Mesh::is_up(const std::string& task) const { return core_->is_up(task); }
std::vector<std::string> Mesh::waiting_for(const std::vector<std::string>& tasks) const {
  std::vector<std::string> out;
  for (const std::string& task : tasks)
    if (!is_up(task)) out.push_back(task);
  return out;
}
caf::strong_actor_ptr Mesh::proxy(const std::string& task, uint64_t actor_id) {
  return core_->proxy(task, actor_id);
}
caf::strong_actor_ptr Mesh::proxy(const caf::strong_actor_ptr& actor) {
  return core_->proxy(actor);
}
std::map<std::string, PeerStats> Mesh::stats() const { return core_->stats(); }
std::map<int32_t, int64_t> Mesh::edge_bytes(uint64_t session, uint32_t executable) const {
  return core_->edge_bytes(session, executable);
}
int64_t Mesh::dropped() const { return core_->dropped(); }

}  // namespace troupe
