// PeerPort: the sending side of one peer for its proxy actors. A proxy has the ids of an actor in
// the peer's process, so it equals that actor's handle; messages to it become frames of the link. A
// new link to the same incarnation revives the old proxies; their monitors have fired in between.
//
// Owner: the mesh; proxies share it. Thread: any, except shut() and reopen(), which run on the net
// thread.
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
#include "net/wire/message_kinds.hpp"

namespace troupe {

// With more proxies of one peer than this, proxies without another owner are dropped.
inline constexpr size_t kProxiesMax = 1 << 16;

class PeerPort : public std::enable_shared_from_this<PeerPort> {
 public:
  PeerPort(caf::actor_system& system, Transport& transport,
           std::shared_ptr<const MessageKinds> kinds, std::shared_ptr<Link> link,
           std::shared_ptr<std::atomic<int64_t>> dropped)
      : system_(system),
        transport_(transport),
        kinds_(std::move(kinds)),
        name_(link->peer().name()),
        node_(caf_node_id(link->peer().node)),
        dropped_(std::move(dropped)),
        link_(std::move(link)) {}

  caf::strong_actor_ptr proxy(uint64_t actor_id);  // null while there is no link
  // Returns false if the message is none of the data plane.
  bool post(uint64_t target, const caf::strong_actor_ptr& sender,
            const caf::type_erased_tuple& message);
  // The link has ended: proxies refuse messages, and their monitors fire. Net thread.
  void shut();
  void reopen(std::shared_ptr<Link> link);  // after shut(); net thread

 private:
  caf::actor_system& system_;
  Transport& transport_;
  const std::shared_ptr<const MessageKinds> kinds_;
  const std::string name_;
  const caf::node_id node_;
  const std::shared_ptr<std::atomic<int64_t>> dropped_;
  std::mutex mutex_;  // guards the rest
  std::shared_ptr<Link> link_;
  std::unordered_map<uint64_t, caf::strong_actor_ptr> proxies_;
};

}  // namespace troupe
