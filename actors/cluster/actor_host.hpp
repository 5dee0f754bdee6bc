// ActorHost: the actor system of a process, its own or its caller's, and for a member of a cluster
// the network and the random numbers that the system and the mesh use.
// Owner: Process. Thread: the one that makes and ends the process.
#pragma once

#include <functional>
#include <memory>

#include <caf/all.hpp>

#include "actors/cluster/services.hpp"
#include "net/link/net_thread.hpp"
#include "net/wire/message_kinds.hpp"

namespace troupe {

// The seams between a process and the outside world. Empty fields: production's.
struct ProcessSeams {
  std::unique_ptr<NetThread> net;  // handed over
  // A simulation sets these instead: scheduler and middleman of the actor system, and the other
  // seams.
  std::function<void(caf::actor_system_config&)> configure;
  Transport* transport = nullptr;
  Clock* clock = nullptr;
  Rng* rng = nullptr;
};

class ActorHost {
 public:
  // Alone. Throws: Error(bad_configuration) for resources that the system denies.
  ActorHost(int lanes, const ServicesFactory& services);
  // The caller's, which outlives it.
  explicit ActorHost(caf::actor_system& system) : system_(&system) {}
  // For a member of a cluster. Throws: as above.
  ActorHost(int lanes, const ServicesFactory& services, ProcessSeams seams);
  ~ActorHost();
  ActorHost(const ActorHost&) = delete;

  caf::actor_system& system() { return *system_; }
  bool owns_system() const { return owned_system_ != nullptr; }
  bool simulated() const { return simulated_; }
  // A member has these three, until end_network().
  Transport& transport() { return *transport_; }
  Clock& clock() { return *clock_; }
  Rng& rng() { return *rng_; }
  const std::shared_ptr<MessageKinds>& kinds() const { return kinds_; }  // of the data plane
  void end_network() { net_.reset(); }
  // As NetThread::on_exception(); a simulation's network has no thread.
  void on_exception(std::function<void(const std::string& text)> tell) {
    if (net_) net_->on_exception(std::move(tell));
  }

 private:
  // Made in this order, destroyed in the reverse one.
  std::unique_ptr<NetThread> net_;
  std::unique_ptr<Rng> system_rng_;
  Transport* transport_ = nullptr;
  Clock* clock_ = nullptr;
  Rng* rng_ = nullptr;
  const std::shared_ptr<MessageKinds> kinds_ = std::make_shared<MessageKinds>();
  std::unique_ptr<caf::actor_system_config> config_;
  std::unique_ptr<caf::actor_system> owned_system_;
  caf::actor_system* system_ = nullptr;
  const bool simulated_ = false;
};

}  // namespace troupe
