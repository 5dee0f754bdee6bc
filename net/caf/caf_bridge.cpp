// The middleman, the scribe and the greeter that connect CAF to a link.
#include "net/caf/caf_bridge.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/test_multiplexer.hpp>

#include "net/caf/basp_guard.hpp"
#include "net/link/link.hpp"

namespace troupe {

// Message to the greeter: act as the dialler of this connection.
struct ConnectScribe {
  caf::io::scribe_ptr scribe;
  NodeId peer;
};

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ConnectScribe)

namespace troupe {

// CAF 0.17 derives node ids from the host, so restarted containers repeat them. The id is therefore
// set directly: an explicit instantiation may name a private member. tests/net/mesh/mesh_test.cpp
// fails if a CAF version changes this.
template <auto Member>
struct NodeIdAccess {
  friend caf::node_id& node_of(caf::actor_system& system) { return system.*Member; }
};
template struct NodeIdAccess<&caf::actor_system::node_>;
caf::node_id& node_of(caf::actor_system& system);

namespace {

constexpr char kNodeIdOption[] = "troupe.node-id";
constexpr int64_t kFirstConnection = int64_t{1} << 40;  // far above file descriptors

// A multiplexer that neither listens nor dials: every function that would open a socket fails.
struct ClosedMultiplexer : caf::io::network::default_multiplexer {
  using default_multiplexer::default_multiplexer;
  caf::expected<caf::io::doorman_ptr> new_tcp_doorman(uint16_t, const char*, bool) override {
    return caf::make_error(caf::sec::cannot_open_port);
  }
  caf::expected<caf::io::scribe_ptr> new_tcp_scribe(const std::string&, uint16_t) override {
    return caf::make_error(caf::sec::cannot_connect_to_node);
  }
  caf::expected<caf::io::datagram_servant_ptr> new_remote_udp_endpoint(const std::string&,
                                                                       uint16_t) override {
    return caf::make_error(caf::sec::cannot_connect_to_node);
  }
  caf::expected<caf::io::datagram_servant_ptr> new_local_udp_endpoint(uint16_t, const char*,
                                                                      bool) override {
    return caf::make_error(caf::sec::cannot_open_port);
  }
};

NodeId parse_node_id(const std::string& hex) {
  NodeId out;
  for (size_t i = 0; i < out.host.size(); ++i)
    out.host[i] = static_cast<uint8_t>(std::stoi(hex.substr(8 + 2 * i, 2), nullptr, 16));
  out.process = static_cast<uint32_t>(std::stoul(hex.substr(0, 8), nullptr, 16));
  return out;
}

template <class Backend>
class ClosedMiddleman : public caf::io::middleman {
 public:
  explicit ClosedMiddleman(caf::actor_system& system) : middleman(system), backend_(&system) {}
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new ClosedMiddleman(system);
  }
  caf::io::network::multiplexer& backend() override { return backend_; }
  void init(caf::actor_system_config& config) override {  // before any actor exists
    middleman::init(config);
    node_of(system()) =
        caf_node_id(parse_node_id(caf::get_or(config, kNodeIdOption, std::string(48, '1'))));
  }

 private:
  Backend backend_;
};

template <class Backend>
void load(caf::actor_system_config& config, Rng& rng) {
  config.load<ClosedMiddleman<Backend>>();
  std::string id;
  while (id.size() < 48) {
    static constexpr char kDigits[] = "0123456789abcdef";
    uint64_t bits = rng.next();
    for (int i = 0; i < 16; ++i, bits >>= 4) id.push_back(kDigits[bits & 15]);
  }
  caf::put(config.content, kNodeIdOption, id);
  config.set("middleman.enable-automatic-connections", false);
  config.set("middleman.heartbeat-interval", caf::timespan{0});
  config.set("middleman.connection-timeout", caf::timespan{0});
  config.set("middleman.workers", size_t{0});
}

}  // namespace

void load_network(caf::actor_system_config& config, Rng& rng) {
  load<ClosedMultiplexer>(config, rng);
}

void load_test_network(caf::actor_system_config& config, Rng& rng) {
  load<caf::io::network::test_multiplexer>(config, rng);
  config.set("middleman.manual-multiplexing", true);
  config.set("middleman.attach-utility-actors", true);
}

NodeId node_id_of(const caf::node_id& node) {
  NodeId out;
  if (!node || node->implementation_id() != caf::node_id::default_data::class_id) return out;
  const auto& bytes = static_cast<const caf::node_id::default_data&>(*node);
  out.process = bytes.process_id();
  const auto host = bytes.host_id();
  std::copy(host.begin(), host.end(), out.host.begin());
  return out;
}

caf::node_id caf_node_id(const NodeId& node) {
  caf::node_id::default_data::host_id_type host;
  std::copy(node.host.begin(), node.host.end(), host.begin());
  return caf::make_node_id(node.process, host);
}

// Records if CAF still knows a connection, and runs a function once CAF has forgotten it.
class CafBridge::Slot {
 public:
  void mark_gone() {
    std::function<void()> todo;
    {
      std::lock_guard lock(mutex_);
      gone_ = true;
      todo = std::exchange(next_, nullptr);
    }
    if (todo) todo();
  }
  void when_gone(std::function<void()> fn) {
    {
      std::lock_guard lock(mutex_);
      if (!gone_) {
        next_ = std::move(fn);
        return;
      }
    }
    fn();
  }
  void forget_next() {
    std::lock_guard lock(mutex_);
    next_ = nullptr;
  }
  bool gone() const {
    std::lock_guard lock(mutex_);
    return gone_;
  }

 private:
  mutable std::mutex mutex_;  // guards the rest
  bool gone_ = false;
  std::function<void()> next_;
};

class CafBridge::Scribe final : public caf::io::scribe {
 public:
  Scribe(int64_t id, const std::shared_ptr<Link>& link, std::shared_ptr<Slot> slot,
         caf::io::network::multiplexer& mpx)
      : scribe(caf::io::connection_handle::from_int(id)),
        link_(link),
        slot_(std::move(slot)),
        mpx_(mpx),
        peer_(detail::concat(link->peer().name(), "#", link->peer().incarnation)),
        guard_(link->peer().node, link->role() == Link::Role::dialler) {}

  // BASP asks for exactly n bytes: a header, then the payload that the header announces.
  void configure_read(caf::io::receive_policy::config config) override {
    want_ = config.second;
    if (std::exchange(launched_, true)) return;
    // Feeds the bytes that arrived before the broker took this scribe.
    mpx_.post(
        [self = caf::intrusive_ptr<Scribe>(this)] { self->feed(std::exchange(self->stash_, {})); });
  }
  void flush() override {
    if (out_.empty()) return;
    if (const auto link = link_.lock()) link->send_caf(std::move(out_));
    out_ = {};
  }
  void feed(const std::vector<char>& bytes) {
    if (!launched_) {
      stash_.insert(stash_.end(), bytes.begin(), bytes.end());
      return;
    }
    for (const char *p = bytes.data(), *end = p + bytes.size();
         p < end && !detached() && !closed_;) {
      const size_t take = std::min(static_cast<size_t>(end - p), want_ - in_.size());
      // Grows only as bytes arrive, never by the size in a header.
      in_.insert(in_.end(), p, p + take);
      p += take;
      if (in_.size() < want_) break;
      read_.swap(in_);  // consume() reads rd_buf()
      hand_over();
      read_.clear();
      in_.clear();
    }
    if (const auto link = link_.lock()) link->eaten(bytes.size());
    finish();
  }
  void closed() {
    closed_ = true;
    finish();
  }
  void graceful_shutdown() override {
    const caf::intrusive_ptr<Scribe> self(this);  // the broker may hold the only other reference
    flush();
    detach(&mpx_, false);
    end_link();
    slot_->mark_gone();
  }
  std::vector<char>& wr_buf() override { return out_; }
  std::vector<char>& rd_buf() override { return read_; }
  std::string addr() const override { return peer_; }
  uint16_t port() const override { return 0; }
  void ack_writes(bool) override {}
  void add_to_loop() override {}
  void remove_from_loop() override {}

 private:
  // Passes the header or payload in read_ to CAF.
  void hand_over() {
    fault_ = guard_.check(read_);
    if (!fault_.empty()) {
      closed_ = true;
      return;
    }
    fault_ = "CAF cannot read them";
    if (!consume(&mpx_, read_.data(), read_.size())) closed_ = true;
    if (!detached() && !closed_) fault_.clear();
  }
  void end_link() {
    const auto link = link_.lock();
    if (!link) return;
    if (fault_.empty())
      link->close("CAF has closed its connection");
    else
      link->reject("malformed control messages: " + fault_);
  }
  void finish() {
    if (!closed_ || !launched_) return;
    end_link();
    if (!detached()) io_failure(&mpx_, caf::io::network::operation::read);
    slot_->mark_gone();
  }

  const std::weak_ptr<Link> link_;
  const std::shared_ptr<Slot> slot_;
  caf::io::network::multiplexer& mpx_;
  const std::string peer_;
  BaspGuard guard_;
  std::string fault_;  // the fault in the current bytes; empty between units
  std::vector<char> in_, read_, out_, stash_;
  size_t want_ = 0;
  bool launched_ = false, closed_ = false;
};

class CafBridge::ScribeChannel final : public CafChannel {
 public:
  ScribeChannel(caf::intrusive_ptr<Scribe> scribe, caf::io::network::multiplexer& mpx)
      : scribe_(std::move(scribe)), mpx_(mpx) {}
  void feed(std::span<const std::byte> bytes) override {
    const char* p = reinterpret_cast<const char*>(bytes.data());
    mpx_.post(
        [scribe = scribe_, copy = std::vector<char>(p, p + bytes.size())] { scribe->feed(copy); });
  }
  void closed() override {
    mpx_.post([scribe = scribe_] { scribe->closed(); });
  }

 private:
  const caf::intrusive_ptr<Scribe> scribe_;
  caf::io::network::multiplexer& mpx_;
};

namespace {

// The actor that other processes meet first. On the dialler's side it asks the other greeter for
// its agent and sends its own.
caf::behavior run_greeter(caf::event_based_actor* self, caf::actor basp, caf::actor agent,
                          CafBridge::Events events) {
  self->set_default_handler(caf::drop);
  return {
      [=](caf::join_atom, const caf::actor& other) -> caf::result<caf::actor> {
        if (!other) return caf::sec::invalid_argument;
        events.on_agent(node_id_of(other.node()), other);
        return agent;
      },
      [=](const ConnectScribe& order) {
        const NodeId peer = order.peer;
        const auto fail = [=](const caf::error& e) {
          events.on_failed(peer, self->system().render(e));
        };
        self->request(basp, kCafHandshakeTimeout, caf::connect_atom_v, order.scribe, uint16_t{1})
            .then(
                [=](caf::node_id&, caf::strong_actor_ptr& theirs, std::set<std::string>&) {
                  if (!theirs) return fail(caf::make_error(caf::sec::no_actor_published_at_port));
                  self->request(caf::actor_cast<caf::actor>(theirs), kCafHandshakeTimeout,
                                caf::join_atom_v, agent)
                      .then(
                          [=](const caf::actor& other) {
                            events.on_agent(node_id_of(other.node()), other);
                          },
                          fail);
                },
                fail);
      },
  };
}

}  // namespace

CafBridge::CafBridge(caf::actor_system& system, caf::actor agent, Events events)
    : system_(system),
      basp_(system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"))),
      next_id_(kFirstConnection) {
  greeter_ = system.spawn(run_greeter, basp_, std::move(agent), std::move(events));
}

CafBridge::~CafBridge() { stop(); }

void CafBridge::stop() {
  if (greeter_) caf::anon_send_exit(greeter_, caf::exit_reason::user_shutdown);
  greeter_ = nullptr;
  for (auto& [peer, slot] : slots_) slot->forget_next();
}

std::shared_ptr<CafChannel> CafBridge::attach(const std::shared_ptr<Link>& link) {
  auto& mpx = system_.middleman().backend();
  const NodeId peer = link->peer().node;
  auto slot = std::make_shared<Slot>();
  auto scribe = caf::make_counted<Scribe>(next_id_++, link, slot, mpx);
  const auto introduce = [basp = basp_, greeter = greeter_, scribe, peer,
                          dialler = link->role() == Link::Role::dialler] {
    if (dialler)
      caf::anon_send(greeter, ConnectScribe{scribe, peer});
    else
      caf::anon_send(basp, caf::publish_atom_v, caf::io::scribe_ptr{scribe}, uint16_t{1},
                     caf::actor_cast<caf::strong_actor_ptr>(greeter), std::set<std::string>{});
  };
  const auto before = std::exchange(slots_[peer], slot);
  if (before)
    before->when_gone(introduce);
  else
    introduce();
  std::erase_if(slots_,
                [&](const auto& entry) { return entry.second != slot && entry.second->gone(); });
  return std::make_shared<ScribeChannel>(std::move(scribe), mpx);
}

}  // namespace troupe
