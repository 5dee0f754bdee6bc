// Process: one member of a cluster, or one local session: an actor system, devices, the agent,
// services, and, in a cluster, the mesh of links to the other members. Several may
// live in one operating system process.
// Owner: the session, or run_node(). Thread: any; the owner starts and stops it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <caf/all.hpp>
#include <spdlog/logger.h>

#include "actors/cluster/actor_host.hpp"
#include "actors/cluster/departures.hpp"
#include "actors/cluster/device_actor.hpp"
#include "actors/cluster/occupants.hpp"
#include "actors/cluster/process_lanes.hpp"
#include "actors/cluster/services.hpp"
#include "actors/cluster/session_leases.hpp"
#include "actors/cluster/agent.hpp"
#include "actors/observe/trace.hpp"
#include "devices/device.hpp"
#include "devices/memory/segment_pool.hpp"
#include "devices/resources.hpp"
#include "net/mesh/mesh.hpp"
#include "troupe/session.hpp"

namespace troupe {

struct ClusterOptions {
  std::string cluster = "troupe";
  std::string listen = "127.0.0.1:0";
  std::string announce = {};  // as MeshOptions::announce
  std::vector<std::string> seeds;
  bool insecure = false;
  // Called on any thread when the process cannot go on: its agent has died (internal), or a device
  // is lost (device_lost).
  std::function<void(Errc code, const std::string& text)> on_failure = {};
  // The bytes that members of the cluster prove to know (read_secret()); empty: none.
  std::string secret = {};
  std::shared_ptr<TlsFiles> tls = {};  // read_tls(); null: links are plain
  // A session whose program is away for longer ends here; 0: never.
  std::chrono::milliseconds lease{kLease};
  std::chrono::milliseconds silence{kSilence};  // as MeshOptions::silence; from read_silence()
};

class Process {
 public:
  // Alone: no mesh. Throws: Error(invalid_argument) for impossible numbers of threads or devices;
  // bad_configuration for resources that the system denies.
  Process(std::string task, ProcessOptions options);
  // Alone, on the caller's actor system, which outlives it.
  Process(std::string task, ProcessOptions options, caf::actor_system& system);
  // A member: joins when `start` is called. Requires: options.ops.
  Process(std::string task, uint64_t incarnation, ProcessOptions options, ClusterOptions cluster,
          ProcessSeams seams = {});
  ~Process();
  static uint64_t draw_incarnation();
  Process(const Process&) = delete;

  // Listens, joins through the seeds, and from then on reports members that come and go to
  // `listener` (on the network thread). Returns our address. Throws: Error(io) when the port is
  // taken; Error(bad_configuration) for an address beyond loopback without TLS.
  std::string start(MeshListener* listener);
  void stop();

  caf::actor_system& system() { return host_->system(); }
  const std::string& task() const { return task_; }
  uint64_t incarnation() const { return incarnation_; }
  const std::shared_ptr<const Registry>& ops() const { return options_.ops; }  // null: not a member
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_.all(); }
  Device& cpu() const { return *devices_.all()[0]; }
  // Where values are made that processes of this machine may read in place.
  Memory& values_memory() const {
    SegmentPool* const segments = cpu().segments();
    return segments ? static_cast<Memory&>(*segments) : cpu().memory();
  }
  const LocalDevices& local_devices() const { return devices_; }
  Device* device(const std::string& name) const { return devices_.find(name); }
  bool simulated() const { return host_->simulated(); }
  const ProcessLanes& lanes() const { return lanes_; }
  const std::vector<std::string>& data_dirs() const { return options_.data_dirs; }
  bool passes() const { return options_.passes; }  // ProcessOptions::passes
  Tracer& tracer() { return *tracer_; }
  const std::shared_ptr<spdlog::logger>& log() const { return log_; }
  ProcessServices& services() { return *services_; }
  const ServicesFactory& services_factory() const { return *options_.services; }
  ResourceTable& resources() { return sessions_->resources; }
  SessionLeases& leases() { return sessions_->leases; }
  Departures& departures() { return sessions_->departures; }
  Mesh* mesh() { return mesh_.get(); }
  const Agent& agent() const { return agent_; }
  // A handle to an actor of another member, or, for this task, the actor itself. Empty if the
  // member is not up. Requires: the actor takes the messages of `Handle`.
  template <class Handle = caf::actor>
  Handle remote(const std::string& task, uint64_t actor_id) {
    return caf::actor_cast<Handle>(find(task, actor_id));
  }
  // Registers an actor that uses this process: stop() ends it and waits for its end. Any thread.
  template <class Handle>
  void track(const Handle& actor) {
    occupants_.add(caf::actor_cast<caf::actor>(actor));
  }
  Occupants& occupants() { return occupants_; }
  // Makes an actor of this process reachable for data-plane messages of other members.
  void open_door(const caf::strong_actor_ptr& actor);
  void close_door(uint64_t actor_id);
  // As SessionLeases::hold(), now. Any actor of this process.
  void hold(uint64_t session, const caf::node_id& by, bool values = false);
  // Called by the listener given to start(). A member that is up keeps its sessions.
  void peer_up(const Member& member, const caf::actor& agent);
  // Ends requests to a lost member at once, and steps with an edge from or to it; its sessions end
  // after their lease.
  void peer_down(const Member& member, const std::string& reason);

 private:
  // Tells the process of the end of its actors, as long as it has not stopped. An actor has ended
  // for CAF before its watchers are called.
  struct Watch {
    std::recursive_mutex mutex;  // held by a watcher, which may call functions of the program
    bool stopped = false;
  };
  // Sessions that have something here, and their queues.
  struct Sessions {
    SessionLeases leases;
    ResourceTable resources;
    caf::actor_addr agent = {};  // which looks at the leases
    Departures departures = {};  // of members
  };
  // `log_apart`: the program's sink is called on a thread of its own.
  Process(bool log_apart, std::string task, uint64_t incarnation, ProcessOptions options);
  caf::strong_actor_ptr find(const std::string& task, uint64_t actor_id);
  void make_actors(const std::function<void(Errc code, const std::string& text)>& on_failure,
                   std::chrono::milliseconds lease);

  const std::string task_;
  const uint64_t incarnation_;
  const ProcessOptions options_;
  std::shared_ptr<spdlog::logger> log_;
  const std::shared_ptr<Tracer> tracer_;  // a helper may use it after the process has gone
  ProcessLanes lanes_;
  // Made in this order, destroyed in the reverse one.
  LocalDevices devices_;
  Doors doors_;
  std::unique_ptr<ActorHost> host_;
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<ProcessServices> services_;
  Agent agent_;
  std::unique_ptr<Sessions> sessions_;
  Occupants occupants_;
  const std::shared_ptr<Watch> watch_;
};

}  // namespace troupe
