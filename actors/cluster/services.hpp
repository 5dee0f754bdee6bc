// The services of a process beside its executors: parameters, the shards that hold them, and
// sources of records.
// training/ implements them; actors/ only passes them on, so the engine knows neither shards,
// optimizers nor files. Owner: Process, and a session for ParameterOwner; factories are global.
// Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <caf/all.hpp>

#include "devices/input_port.hpp"
#include "devices/run_context.hpp"
#include "troupe/op.hpp"

namespace troupe {

class Master;
class MessageKinds;
class Process;

class ProcessServices {
 public:
  virtual ~ProcessServices() = default;
  // Ends its actors and all requests. The object stays until the actors have ended.
  virtual void stop() = 0;
  // The parameters of a session for this process's kernels. Valid until `forget(session)` or the
  // end of the process.
  virtual ParameterPort* port(uint64_t session) = 0;
  // The sources that this process reads for a session. Valid until the end of the process.
  virtual InputPort* input(uint64_t session) = 0;
  virtual void forget(uint64_t session) = 0;
  // The actor of that name for other processes ("shards", "parameters", "input", and those that
  // offer() was given); an empty handle for an unknown name.
  virtual caf::actor actor(const std::string& name) = 0;
  virtual void offer(const std::string& name, caf::actor actor) = 0;
  // A task was lost: ends requests to it at once.
  virtual void peer_down(const std::string& task, const std::string& reason) = 0;
  // Describes requests under way, for the report of a stalled step; empty if there are none.
  virtual std::string waiting_for() = 0;
};

// The parameters of one session, on its master's side.
class ParameterOwner {
 public:
  virtual ~ParameterOwner() = default;  // called when no thread is inside the gate
  // Called before the master stops: cancels waits for parameters, and trainings.
  virtual void end() = 0;
};
struct ParameterOwnerOptions {
  std::string container;  // empty: the session's own
  int replicas = 0;       // 0: the ones in the graph
  int shards = 0;         // 0: one per task
};

// Makes the services that ProcessOptions::services names. Immutable, and shared by all processes.
class ServicesFactory {
 public:
  virtual ~ServicesFactory() = default;
  virtual void add_messages(caf::actor_system_config& config, MessageKinds& kinds) const = 0;
  virtual std::unique_ptr<ProcessServices> make_services(Process& process) const = 0;
  virtual std::unique_ptr<ParameterOwner> make_parameter_owner(
      Master& master, ParameterOwnerOptions options) const = 0;
};

}  // namespace troupe
