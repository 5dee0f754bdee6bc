// PeerPort: another process as proxy actors see it. A proxy has the ids of an actor in the peer's
// process, so it equals that actor's handle; what it is sent becomes frames of the link. A link to
// the same incarnation that is lost and made anew gives old proxies their way back; their monitors
// have fired meanwhile. Owner: the mesh; proxies keep it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include <caf/actor_control_block.hpp>
#include <caf/node_id.hpp>

#include "net/caf/caf_bridge.hpp"
#include "net/link/link.hpp"

namespace troupe {

// Proxies of one peer, beyond which those nobody holds are forgotten.
inline constexpr size_t kProxiesMax = 1 << 16;

caf::message to_caf_message(PlaneMessage message);

// Any thread, but for shut() and reopen().
class PeerPort : public std::enable_shared_from_this<PeerPort> {
 public:
  PeerPort(caf::actor_system& system, Transport& transport, std::shared_ptr<Link> link,
           std::shared_ptr<std::atomic<int64_t>> dropped)
      : system_(system),
        transport_(transport),
        name_(link->peer().name()),
        node_(caf_node_id(link->peer().node)),
        dropped_(std::move(dropped)),
        link_(std::move(link)) {}

  caf::strong_actor_ptr proxy(uint64_t actor_id);  // null while there is no link
  void post(uint64_t target, const caf::strong_actor_ptr& sender, PlaneMessage message);
  // The link has ended: proxies refuse, their monitors fire. Net thread.
  void shut();
  void reopen(std::shared_ptr<Link> link);  // after shut(). Net thread

 private:
  caf::actor_system& system_;
  Transport& transport_;
  const std::string name_;
  const caf::node_id node_;
  const std::shared_ptr<std::atomic<int64_t>> dropped_;
  std::mutex mutex_;  // guards the rest
  std::shared_ptr<Link> link_;
  std::unordered_map<uint64_t, caf::strong_actor_ptr> proxies_;
};

}  // namespace troupe
