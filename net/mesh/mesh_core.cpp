// Starts and stops a mesh, dials and accepts, and passes on what its links bring.
#include "net/mesh/mesh_core.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include <caf/all.hpp>
#include <spdlog/sinks/null_sink.h>

#include "graph/base/fail_point.hpp"
#include "devices/memory/segment.hpp"
#include "net/link/greetings.hpp"
#include "net/link/tls.hpp"
#include "net/wire/address.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr size_t kStrangersMax = 64;   // connections that have not greeted yet
constexpr auto kGreetingTime = 500ms;  // of a stranger that others do not replace
constexpr auto kCourtesy = 300ms;      // the larger name leaves the first dial to the smaller name
constexpr int64_t kCountedBytes = 1 << 20;  // smaller tensors that arrive are not counted

// Checks the options on their own. Throws: Error(bad_configuration).
void check(const MeshOptions& options) {
  for (const std::string* name : {&options.cluster, &options.job})
    if (!is_good_name(*name))
      throw Error(Errc::bad_configuration, "\"", *name,
                  "\" cannot name a cluster or a job; write up to ", kNameMax,
                  " letters, digits, _ - or .");
  if (options.task < 0)
    throw Error(Errc::bad_configuration, "a task number is not negative, got ", options.task);
  for (const std::string& seed : options.seeds) (void)parse_address(seed);
  const HostPort where = parse_address(options.listen);
  if (!is_loopback(where.host) && !options.insecure && !options.tls)
    throw Error(Errc::bad_configuration, "refusing to listen on ", options.listen,
                " without TLS: whoever reaches the port controls this process; with a secret, "
                "whoever can change packets on the way does; give --tls, listen on 127.0.0.1, or "
                "say --insecure on a network you trust");
  if (is_wildcard(where.host) && options.announce.empty())
    throw Error(
        Errc::bad_configuration, "refusing to listen on ", options.listen,
        ": the other members are told this address, and cannot dial it; give the address of "
        "this machine that they shall use, like 10.0.0.5:7000, or announce another one");
  if (options.announce.empty() || options.announce == kNoAddress) return;
  const HostPort told = parse_address(options.announce);
  if (is_wildcard(told.host) || told.port == 0)
    throw Error(Errc::bad_configuration, "cannot announce ", options.announce,
                ": other members cannot dial it; give a host and a port, like 10.0.0.5:7000");
  if (told.host == "localhost")  // a proof holds for the address that a connection has
    throw Error(Errc::bad_configuration, "cannot announce ", options.announce,
                ": give a loopback address in digits, like 127.0.0.1:7000");
  if (!is_loopback(told.host) && !options.insecure && !options.tls)
    throw Error(Errc::bad_configuration, "refusing to announce ", options.announce,
                " without TLS: give --tls, or say --insecure on a network you trust");
}

int64_t half_of_memory() {
  const int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::max(bytes / 2, int64_t{1} << 30);
}

MeshOptions complete(MeshOptions options) {
  if (options.arriving_bytes_max == 0) options.arriving_bytes_max = half_of_memory();
  if (!options.kinds) options.kinds = std::make_shared<const MessageKinds>();
  if (!options.log) {
    options.log =
        std::make_shared<spdlog::logger>("net", std::make_shared<spdlog::sinks::null_sink_mt>());
    options.log->set_level(spdlog::level::off);
  }
  return options;
}

}  // namespace

Mesh::Core::Core(caf::actor_system& system, Transport& transport, Clock& clock, Rng& rng,
                 Doors& doors, MeshOptions options)
    : system_(system),
      transport_(transport),
      clock_(clock),
      doors_(doors),
      options_(complete(std::move(options))),
      targets_(rng),
      members_(system, transport, options_) {}

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
    const std::string& told = options_.announce;
    members_.listens_at(told.empty() ? address : told == kNoAddress ? "" : told);
    listener_ = listener;
    port_ = std::move(port);
    bridge_ = std::make_unique<CafBridge>(system_, agent, caf_events());
    for (const std::string& seed : options_.seeds)
      if (seed != address && seed != told) targets_.add_seed(seed, clock_.now());
    // TLS proves names also within a machine, and is not done without.
    const std::string tcp = options_.tls ? "links have TLS" : port_->accept_local();
    std::string bytes = tcp.empty() && !options_.segments ? "as set" : tcp;
    if (bytes.empty()) (void)Segment::make(kCountedBytes, bytes);
    options_.log->info(
        "listening: address={} announced={} cluster={} incarnation={} secret={} tls={} local={} "
        "in_place={}",
        address, told.empty() ? address : told, options_.cluster, options_.incarnation,
        options_.secret ? "given" : "none", options_.tls ? "given" : "none",
        tcp.empty() ? "yes" : "no, " + tcp, bytes.empty() ? "yes" : "no, " + bytes);
    if (!options_.tls && !is_loopback_address(address))
      options_.log->warn(
          "links are not encrypted, and --insecure allows it: address={} danger={}", address,
          options_.secret ? "whoever can change packets on the way controls this process"
                          : "whoever reaches this address controls this process");
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
      if (const Peer* peer = self->members_.find(node))
        peer->link->close("CAF's handshake failed: " + reason);
    });
  };
  return out;
}

void Mesh::Core::stop() {
  transport_.run([&] {
    if (!timer_) return;
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
  members_.introduce_again(now);
  const auto is_linked = [this](const std::string& name) { return members_.has(name); };
  for (const std::string& address : targets_.due(now, is_linked)) dial(address);
}

std::shared_ptr<Link> Mesh::Core::open(ConnectionPtr connection, const std::string& dialled) {
  if (options_.tls)
    connection = encrypt(std::move(connection), options_.tls->current(), members_.self(), dialled);
  auto link = std::make_shared<Link>(
      dialled.empty() ? Link::Role::acceptor : Link::Role::dialler, std::move(connection),
      Greeting{GreetingKind::hello, Refusal::none, "", members_.self()}, *this,
      [&transport = transport_](std::function<void()> fn) { transport.post(std::move(fn)); },
      clock_.now(), options_.secret);
  links_.push_back(link);
  return link;
}

void Mesh::Core::accept(ConnectionPtr connection) {
  if (!timer_) return connection->close();
  std::vector<std::shared_ptr<Link>> strangers;
  std::copy_if(links_.begin(), links_.end(), std::back_inserter(strangers), [](const auto& l) {
    return l->role() == Link::Role::acceptor && l->state() != Link::State::up;
  });
  if (strangers.size() >= kStrangersMax) {
    if (clock_.now() - strangers[0]->began() < kGreetingTime) return connection->close();
    strangers[0]->close_now("it has not greeted, and others wait");
  }
  open(std::move(connection), "")->start();
}

void Mesh::Core::dial(const std::string& address) {
  if (drops_at(FailPoint::mesh_dial)) {
    targets_.failed(address, clock_.now());
    return;
  }
  transport_.dial(
      address, kDialTimeout,
      [weak = weak_from_this(), address](ConnectionPtr connection, const std::string& reason) {
        const auto self = weak.lock();
        if (connection && (!self || !self->targets_.has(address))) return connection->close();
        if (!self) return;
        if (connection) {
          if (!reason.empty())
            self->options_.log->debug("no local socket, so by TCP: address={} reason={}", address,
                                      reason);
          const auto link = self->open(std::move(connection), address);
          self->targets_.connected(address, link);
          return link->start();
        }
        if (self->targets_.failed(address, self->clock_.now()))
          self->options_.log->info("still waiting for a seed: address={} error={}", address,
                                   reason);
      });
}

// Members

Greeting Mesh::Core::judge(Link& link, const Greeting& theirs) {
  return members_.judge(link, theirs, links_, clock_.now());
}

void Mesh::Core::established(Link& link) {
  const Hello& h = link.peer();
  const std::string name = h.name();
  if (members_.has(name)) return link.close_now("there is a link already", Refusal::linked);
  const Member newcomer = members_.add(link);
  targets_.met(link);
  if (!newcomer.address.empty() && !targets_.has(newcomer.address))
    targets_.add(newcomer.address, name, clock_.now(), kBackoffFirst);
  options_.log->debug("link established: peer={} address={} incarnation={}", name, h.address,
                      h.incarnation);
  members_.find(link)->caf = bridge_->attach(link.shared_from_this());
  members_.introduce(link);
}

void Mesh::Core::agent_known(const NodeId& node, const caf::actor& agent) {
  const auto member = members_.announce(node);
  if (!member) return;
  options_.log->info("peer up: peer={} address={} incarnation={} local={}", member->name(),
                     member->address, member->incarnation,
                     members_.find(node)->link->stats().local ? "yes" : "no");
  fail_point(FailPoint::mesh_member_up);
  if (listener_) listener_->up(*member, agent);
}

void Mesh::Core::closed(Link& link, const std::string& reason, Refusal why) {
  const std::shared_ptr<Link> self = link.shared_from_this();
  std::erase(links_, self);
  if (members_.find(link)) drop(link.peer().name(), reason);
  if (link.rejected() && may_warn())
    options_.log->error(
        "link closed, its peer does not keep to the protocol; see what runs there: peer={} "
        "address={} reason={}",
        link.label(), link.peer().address, reason);
  if (link.role() == Link::Role::dialler) {
    // A stranger may have taken the port of a peer that died: it ends no process that has met one.
    const bool stranger = link.peer().job.empty() && members_.has_met();
    const bool alone = members_.none() && !stranger;
    if (why == Refusal::none && link.peer().job.empty())
      if (const auto seed = targets_.mute(link, clock_.now()))
        options_.log->info("still waiting for a seed: address={} error={}", *seed, reason);
    if (const auto address = targets_.ended(link, why, alone, clock_.now()))
      return refused(*address, why, reason);
    if (is_final(why) && may_warn())
      options_.log->warn("no link to a process that does not fit: peer={} reason={} text={}",
                         link.label(), to_string(why), reason);
  } else if (why != Refusal::none && why != Refusal::linked && may_warn()) {
    options_.log->warn("refused a connection: peer={} reason={} text={}", link.label(),
                       to_string(why), reason);
  }
}

// At most one line a second: strangers must not fill the log.
bool Mesh::Core::may_warn() {
  if (clock_.now() - warned_ < 1s) return false;
  warned_ = clock_.now();
  return true;
}

void Mesh::Core::drop(const std::string& name, const std::string& reason) {
  const Peer peer = members_.remove(name, clock_.now());
  targets_.lost(name, peer.leaving, clock_.now());
  if (peer.announced) options_.log->info("peer down: peer={} reason={}", name, reason);
  if (peer.caf) peer.caf->closed();
  if (peer.announced && listener_) listener_->down(peer.member, reason);
  peer.port->shut();
}

// The listener's owner ends the process, and says why.
void Mesh::Core::refused(const std::string& address, Refusal why, const std::string& reason) {
  if (std::exchange(refused_, true) || !listener_) return;
  // A listener that waits for nobody any more reports nothing.
  if (members_.has_met())
    options_.log->error("refused, dials no more: address={} reason={}", address, reason);
  // A node id is drawn at each start: the next one fits.
  const Errc code = why == Refusal::same_node ? Errc::peer_lost : Errc::bad_configuration;
  listener_->refused(code, detail::concat(address, " refuses this process: ", reason));
}

// Traffic

void Mesh::Core::control(Link& link, Control type, std::span<const std::byte> payload) {
  Peer* peer = members_.find(link);
  if (!peer) return;
  if (type != Control::members) {
    peer->leaving = true;
    return link.close_now("it left the cluster");
  }
  const auto said = members_.learn(link, payload);
  if (!said) return link.fail_protocol("a list of members cannot be read");
  for (const Member& m : *said)
    targets_.add(m.address, m.name(), clock_.now(),
                 members_.self().name() < m.name() ? 0ms : kCourtesy);
}

void Mesh::Core::caf_bytes(Link& link, std::span<const std::byte> bytes) {
  Peer* peer = members_.find(link);
  if (peer && peer->caf) peer->caf->feed(bytes);
}

// A header of some bytes claims up to 8 GiB, and each member has a link.
Tensor Mesh::Core::allocate(DType dtype, const Shape& shape) {
  const int64_t bytes = size_of(dtype) * shape.size();
  if (bytes >= kCountedBytes) {
    int64_t held = 0;
    for (const auto& link : links_) held += link->arriving_bytes();
    if (held > 0 && held + bytes > options_.arriving_bytes_max)
      throw Error(Errc::out_of_memory, "tensors of ", held >> 20,
                  " MiB arrive already, and the limit of all is ",
                  options_.arriving_bytes_max >> 20, " MiB");
  }
  return options_.allocate ? options_.allocate(dtype, shape) : Tensor::empty(dtype, shape);
}

void Mesh::Core::message(Link& link, Received got) {
  Peer* peer = members_.find(link);
  if (!peer) return;
  const MessageKind& kind = options_.kinds->at(got.kind);
  caf::message message = kind.decode(got.header, std::move(got.payload));
  if (const auto task = kind.speaker(message); !task.empty() && task != peer->member.name())
    return link.fail_protocol(detail::concat("it speaks for ", task));
  const auto refuse = [&](const Loss& loss) {
    const caf::message answer = kind.refusal(message, loss);
    if (got.sender && !answer.empty())
      link.send_or_end(got.sender, got.target, options_.kinds->encode(answer));
  };
  if (got.code != Errc::ok) {
    const Loss loss{got.code, std::move(got.text)};
    caf::message failed = kind.failed_form(message, loss);
    if (failed.empty()) return refuse(loss);
    message = std::move(failed);
  }
  const caf::strong_actor_ptr door = doors_.find(got.target);
  if (!door) {
    members_.count_dropped();
    options_.log->debug("message for an actor that is not there: peer={} actor={} kind={}",
                        peer->member.name(), got.target, got.kind);
    return refuse(
        {Errc::stale, detail::concat("actor ", got.target, " is not in ", members_.self().name())});
  }
  caf::strong_actor_ptr from = got.sender ? peer->port->proxy(got.sender) : nullptr;
  door->enqueue(std::move(from), caf::make_message_id(), std::move(message), nullptr);
}

}  // namespace troupe
