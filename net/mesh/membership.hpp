// Membership: the processes of a cluster as one of them knows them: itself, the peers that it has a
// link to, the newest incarnation of each task, and the members that others have named. It judges
// greetings, draws task numbers and spreads the list of members.
//
// Owner: Mesh::Core. Thread: the net thread, except where marked.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "net/caf/caf_bridge.hpp"
#include "net/link/link.hpp"
#include "net/mesh/mesh.hpp"
#include "net/mesh/peer_port.hpp"

namespace troupe {

// A member with an established link.
struct Peer {
  Member member;
  std::shared_ptr<Link> link;
  std::shared_ptr<PeerPort> port;
  std::shared_ptr<CafChannel> caf;
  bool announced = false, leaving = false;
};

class Membership {
 public:
  Membership(caf::actor_system& system, Transport& transport, const MeshOptions& options);

  // This process.
  const Hello& self() const { return self_; }
  void listens_at(const std::string& address) { self_.address = address; }

  // The answer to a greeting. `links`: all that are open.
  Greeting judge(const Link& link, const Greeting& theirs,
                 const std::vector<std::shared_ptr<Link>>& links, TimePoint now);
  // The link is established. Requires: there is none to that name.
  Member add(Link& link);
  // Its number is not drawn soon: the process may be on its way back.
  Peer remove(const std::string& name, TimePoint now);
  // Tells a new peer of the others, and the others of it.
  void introduce(Link& link);
  // Tells peers of the others once a minute: two members that were cut off from each other for so
  // long that they have forgotten each other's address find it again by a third one.
  void introduce_again(TimePoint now);
  // The members that the peer names and that this process should dial; nothing if the list cannot
  // be read.
  std::optional<std::vector<Member>> learn(const Link& link, std::span<const std::byte> payload);
  // The agent of that node is reachable. Returns its member, once.
  std::optional<Member> announce(const NodeId& node);

  bool none() const { return peers_.empty(); }
  bool has(const std::string& name) const { return peers_.count(name) > 0; }
  Peer* find(const Link& link);  // null if that link is not the one to its peer
  Peer* find(const NodeId& node);

  // Any thread.
  bool is_up(const std::string& task) const;
  std::vector<std::string> heard_of() const;
  caf::strong_actor_ptr proxy(const std::string& task, uint64_t actor_id) const;
  bool has_met() const { return !newest_.empty(); }  // a peer has greeted, now or before
  std::map<std::string, PeerStats> stats() const;
  void count_dropped() { dropped_->fetch_add(1, std::memory_order_relaxed); }
  int64_t dropped() const { return dropped_->load(std::memory_order_relaxed); }

 private:
  struct Life {  // the newest incarnation of a task
    uint64_t incarnation = 0;
    std::weak_ptr<PeerPort> port = {};
  };
  Greeting answer_task(const Hello& asker, TimePoint now);
  bool is_old(const std::string& name, uint64_t incarnation) const;

  caf::actor_system& system_;
  Transport& transport_;
  const std::shared_ptr<const MessageKinds> kinds_;
  const std::shared_ptr<std::atomic<int64_t>> dropped_ = std::make_shared<std::atomic<int64_t>>(0);
  Hello self_;
  std::map<std::string, Life> newest_;         // by task name
  std::map<std::string, TimePoint> reserved_;  // task names, drawn or lost; until when
  TimePoint told_at_{};                        // of introduce_again()
  std::string told_last_;                      // the peer
  mutable std::mutex mutex_;                   // guards the rest; written on the net thread only
  std::map<std::string, Peer> peers_;          // by name
  std::set<std::string> heard_of_;  // members that others have named and that are not up yet
};

}  // namespace troupe
