// Mesh::Core: the state of a mesh, called by its links, its timer and its callers. Implemented in
// three files: mesh.cpp (start, stop, dialling and accepting), mesh_members.cpp (membership) and
// mesh_traffic.cpp (messages and queries).
//
// Owner: the mesh; links, timers and CAF's threads hold weak pointers. Thread: the net thread,
// except where marked.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>

#include "net/caf/caf_bridge.hpp"
#include "net/link/link.hpp"
#include "net/mesh/mesh.hpp"
#include "net/mesh/peer_port.hpp"
#include "net/mesh/targets.hpp"

namespace troupe {

inline constexpr size_t kMembersMax = 1024;  // in one cluster

std::string task_name(const std::string& job, int32_t task);  // "/job:ps/task:1"
Member member_of(const Hello& hello);

// Posts from CAF's threads to the net thread until it is shut. After shut(), no posted function
// holds a CAF object any longer, so the actor system can end.
class PostGate {
 public:
  explicit PostGate(Transport& transport) : transport_(transport) {}
  void post(std::function<void()> fn) {
    std::lock_guard lock(mutex_);
    if (!shut_) transport_.post(std::move(fn));
  }
  void shut() {
    {
      std::lock_guard lock(mutex_);
      shut_ = true;
    }
    transport_.run([] {});  // every function posted before has run
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
  std::optional<TensorClaim> claim(uint16_t kind, std::span<const std::byte> header,
                                   std::string& why) override {
    return options_.kinds->claim(kind, header, why);
  }
  void message(Link& link, Received message) override;
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
    caf::actor agent;  // set once up() was reported
    bool announced = false, leaving = false;
  };

  // Any thread.
  bool is_up(const std::string& task) const;
  std::vector<std::string> heard_of() const;
  caf::strong_actor_ptr proxy(const std::string& task, uint64_t actor_id);
  std::map<std::string, PeerStats> stats() const;
  int64_t dropped() const { return dropped_->load(std::memory_order_relaxed); }

 private:
  CafBridge::Events caf_events();
  void tick();
  void accept(ConnectionPtr connection);
  std::shared_ptr<Link> open(Link::Role role, ConnectionPtr connection);
  void dial(const std::string& address);
  void refused(const std::string& address, const std::string& reason);
  Greeting answer_task(const Hello& asker);
  void learn(Link& link, std::span<const std::byte> payload);
  void tell_members(Link& link, const std::vector<Member>& list);
  void agent_known(const NodeId& node, const caf::actor& agent);
  void drop(const std::string& name, const std::string& reason);
  Peer* find(const Link& link) {
    const auto it = peers_.find(link.peer().name());
    return it != peers_.end() && it->second.link.get() == &link ? &it->second : nullptr;
  }

  caf::actor_system& system_;
  Transport& transport_;
  Clock& clock_;
  Doors& doors_;
  const MeshOptions options_;
  std::shared_ptr<spdlog::logger> log_;
  const std::shared_ptr<PostGate> gate_ = std::make_shared<PostGate>(transport_);
  const std::shared_ptr<std::atomic<int64_t>> dropped_ = std::make_shared<std::atomic<int64_t>>(0);

  // Net thread.
  MeshListener* listener_ = nullptr;
  std::unique_ptr<Listener> port_;
  std::unique_ptr<CafBridge> bridge_;
  TimerPtr timer_;
  std::vector<std::shared_ptr<Link>> links_;  // all that are open, oldest first
  Targets targets_;
  struct Life {  // the newest incarnation of a task
    uint64_t incarnation = 0;
    std::weak_ptr<PeerPort> port = {};
  };
  std::map<std::string, Life> newest_;         // by task name
  std::map<std::string, TimePoint> reserved_;  // drawn task names, and until when each is reserved
  TimePoint warned_{};
  bool refused_ = false, stopped_ = false;

  mutable std::mutex mutex_;  // guards the rest; written on the net thread only
  Hello self_;
  std::map<std::string, Peer> peers_;  // by name
  std::set<std::string> heard_of_;     // members that others have named and that are not up yet
};

}  // namespace troupe
