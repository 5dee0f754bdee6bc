// CafBridge: carries CAF's network traffic (BASP) over our links. A middleman that neither listens
// nor dials gets a random node id; a scribe per link passes BASP bytes between CAF and the link.
// Owner: Mesh::Core. Thread: the net thread calls CafBridge; CAF's network thread calls a scribe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include <caf/actor.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/node_id.hpp>

#include "net/link/hello.hpp"
#include "net/link/seams.hpp"

namespace troupe {

class Link;

// Limit of one BASP message with its header; a larger one ends the link. Memory is allocated only
// as bytes arrive.
inline constexpr size_t kCafMessageMax = 64 << 20;
// From an established link to usable handles on both sides.
inline constexpr std::chrono::seconds kCafHandshakeTimeout{5};

// Loads the middleman into `config`; CAF's own heartbeats stay off. `rng` draws the node id.
void load_network(caf::actor_system_config& config, Rng& rng);
// The same on CAF's deterministic multiplexer (caf::io::network::test_multiplexer), for
// simulations.
void load_test_network(caf::actor_system_config& config, Rng& rng);

NodeId node_id_of(const caf::node_id& node);  // all zero for an id of another kind
caf::node_id caf_node_id(const NodeId& node);

// One BASP connection over one link. Net thread.
class CafChannel {
 public:
  virtual ~CafChannel() = default;
  virtual void feed(std::span<const std::byte> bytes) = 0;
  virtual void closed() = 0;  // the link has ended: CAF forgets the peer, monitors fire
};

class CafBridge {
 public:
  struct Events {  // called on any thread
    std::function<void(const NodeId& peer, const caf::actor& agent)> on_agent;
    std::function<void(const NodeId& peer, const std::string& reason)> on_failed;
  };
  // `agent`: the actor that the other processes receive first.
  CafBridge(caf::actor_system& system, caf::actor agent, Events events);
  ~CafBridge();
  // Introduces the two actor systems at the ends of an established link to each other, after CAF
  // has forgotten an earlier connection to the same peer.
  std::shared_ptr<CafChannel> attach(const std::shared_ptr<Link>& link);
  void stop();

 private:
  class Scribe;
  class ScribeChannel;
  class Slot;

  caf::actor_system& system_;
  caf::actor basp_;
  caf::actor greeter_;
  int64_t next_id_;
  std::map<NodeId, std::shared_ptr<Slot>> slots_;  // the newest connection to each peer
};

}  // namespace troupe
