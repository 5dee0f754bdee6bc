// Mesh::Core: the links of a mesh and what they carry, called by its links, its timer and its
// callers.
//
// Owner: the mesh; links, timers and CAF's threads hold weak pointers. Thread: the net thread,
// except where marked.
#pragma once

#include <memory>
#include <mutex>

#include "net/mesh/membership.hpp"
#include "net/mesh/targets.hpp"

namespace troupe {

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
  const Membership& members() const { return members_; }  // any thread

  Greeting judge(Link& link, const Greeting& theirs) override;
  void established(Link& link) override;
  void control(Link& link, Control type, std::span<const std::byte> payload) override;
  void caf_bytes(Link& link, std::span<const std::byte> bytes) override;
  std::optional<TensorClaim> claim(uint16_t kind, std::span<const std::byte> header,
                                   std::string& why) override {
    return options_.kinds->claim(kind, header, why);
  }
  void message(Link& link, Received message) override;
  Tensor allocate(DType dtype, const Shape& shape) override;
  SegmentPool* segments() override { return options_.segments; }
  void closed(Link& link, const std::string& reason, Refusal refusal) override;

 private:
  CafBridge::Events caf_events();
  void tick();
  void accept(ConnectionPtr connection);
  // `dialled`: the address; empty: it was accepted.
  std::shared_ptr<Link> open(ConnectionPtr connection, const std::string& dialled);
  void dial(const std::string& address);
  void refused(const std::string& address, Refusal why, const std::string& reason);
  void agent_known(const NodeId& node, const caf::actor& agent);
  void drop(const std::string& name, const std::string& reason);
  bool may_warn();

  caf::actor_system& system_;
  Transport& transport_;
  Clock& clock_;
  Doors& doors_;
  const MeshOptions options_;  // with a logger and kinds
  const std::shared_ptr<PostGate> gate_ = std::make_shared<PostGate>(transport_);

  // Net thread.
  MeshListener* listener_ = nullptr;
  std::unique_ptr<Listener> port_;
  std::unique_ptr<CafBridge> bridge_;
  TimerPtr timer_;                            // set from start() to stop()
  std::vector<std::shared_ptr<Link>> links_;  // all that are open, oldest first
  Targets targets_;
  Membership members_;
  TimePoint warned_{};
  bool refused_ = false;
};

}  // namespace troupe
