// Process: one member of a cluster, or one local session: an actor system, devices, the agent (its
// worker actor), services, and, in a cluster, the mesh of links to the other members. Several may
// live in one operating system process.
// Owner: the session, or run_node(). Thread: any; the owner starts and stops it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <caf/all.hpp>
#include <spdlog/logger.h>

#include "actors/cluster/device_actor.hpp"
#include "actors/cluster/services.hpp"
#include "actors/observe/trace.hpp"
#include "devices/device.hpp"
#include "devices/resources.hpp"
#include "net/mesh/mesh.hpp"
#include "net/link/net_thread.hpp"
#include "troupe/session.hpp"

namespace troupe {

class Cores;
class Lanes;

struct ClusterOptions {
  std::string cluster = "troupe";
  std::string listen = "127.0.0.1:0";
  std::vector<std::string> seeds;
  bool insecure = false;
};

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

class Process {
 public:
  // Alone: no mesh. Throws: Error(invalid_argument) for impossible numbers of threads or devices;
  // bad_configuration for resources that the system denies.
  Process(std::string task, ProcessOptions options);
  // Alone, on the caller's actor system, which outlives it.
  Process(std::string task, ProcessOptions options, caf::actor_system& system);
  // A member: joins when `start` is called.
  Process(std::string task, uint64_t incarnation, ProcessOptions options, ClusterOptions cluster,
          ProcessSeams seams = {});
  ~Process();
  static uint64_t draw_incarnation();
  Process(const Process&) = delete;

  // Listens, joins through the seeds, and from then on reports members that come and go to
  // `listener` (on the network thread). Returns our address. Throws: Error(io) when the port is
  // taken; Error(bad_configuration) for an address beyond loopback.
  std::string start(MeshListener* listener);
  void stop();

  caf::actor_system& system() { return *system_; }
  const std::string& task() const { return task_; }
  uint64_t incarnation() const { return incarnation_; }
  const std::shared_ptr<const Registry>& ops() const { return ops_; }
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  Device& cpu() const { return *devices_[0]; }
  Device* device(const std::string& name) const;  // nullptr if it is not one of this process
  bool simulated() const { return simulated_; }
  int lanes() const { return lanes_; }
  Lanes& op_lanes() const { return *op_lanes_; }
  Cores* cores() const { return cores_.get(); }  // null: one lane, or the caller's actor system
  bool passes() const { return passes_; }        // ProcessOptions::passes
  Tracer& tracer() { return *tracer_; }
  const std::shared_ptr<spdlog::logger>& log() const { return log_; }
  ProcessServices& services() { return *services_; }
  const ServicesFactory& services_factory() const { return services_factory_; }
  ResourceTable& resources() { return resources_; }
  Mesh* mesh() { return mesh_.get(); }
  const caf::actor& agent() const { return agent_; }
  caf::actor device_actor(const std::string& name) const;  // empty if it is not one of this process
  // A handle to an actor of another member, or, for this task, the actor itself. Empty if the
  // member is not up.
  caf::actor remote(const std::string& task, uint64_t actor_id);
  // Registers an actor that uses this process: stop() ends it and waits for its end. Any thread.
  void track(const caf::actor& actor);
  size_t tracked() const;  // registered actors, without most of those that have ended
  // Marks work that fires nodes on lanes outside of actors: stop() waits until it is destroyed. Any
  // thread.
  class Firing {
   public:
    explicit Firing(Process& process);
    ~Firing();
    Firing(const Firing&) = delete;

   private:
    Process& process_;
  };
  // Makes an actor of this process reachable for data-plane messages of other members.
  void open_door(const caf::strong_actor_ptr& actor);
  void close_door(uint64_t actor_id);
  // Called on any thread when the agent has died: the process cannot go on. Set before start().
  std::function<void(const std::string& reason)> on_failure;
  // Ends requests to a lost member at once, and steps with an edge from or to it. Called by the
  // listener given to start().
  void peer_down(const Member& member, const std::string& reason);

 private:
  void make_devices(const ProcessOptions& options);
  void make_op_lanes();
  void make_actors();
  void await_firing();

  const std::string task_;
  const uint64_t incarnation_;
  const std::shared_ptr<const Registry> ops_;
  int lanes_ = 1;
  std::shared_ptr<Cores> cores_;
  std::shared_ptr<Lanes> op_lanes_;
  const bool passes_;
  const ServicesFactory& services_factory_;
  std::shared_ptr<spdlog::logger> log_;
  const std::shared_ptr<Tracer> tracer_;  // a helper may use it after the process has gone
  // Made in this order, destroyed in the reverse one.
  std::unique_ptr<NetThread> net_;
  std::unique_ptr<Rng> system_rng_;
  struct Config;
  std::unique_ptr<Config> config_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<Doors> doors_;
  std::unique_ptr<caf::actor_system> owned_system_;
  caf::actor_system* system_ = nullptr;
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<ProcessServices> services_;
  caf::actor agent_;
  std::vector<DeviceActor> device_actors_;
  ResourceTable resources_;
  mutable std::mutex mutex_;  // guards the next two
  std::vector<caf::actor> tracked_;
  int64_t firing_ = 0;
  std::condition_variable none_fires_;
  const bool simulated_ = false;
  std::atomic<bool> stopped_{false};
};

}  // namespace troupe
