// What a process offers beside its stages: parameters and the shards that hold them. training/
// implements it; actors/ only hands it around, so the engine knows neither shards nor optimizers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <caf/all.hpp>

#include "troupe/op.hpp"

namespace troupe {

class Master;
class Process;

class ProcessServices {
 public:
  virtual ~ProcessServices() = default;
  // Ends its actors and all requests. The object stays until the actors have gone.
  virtual void stop() = 0;
  // The parameters of a session as this process's kernels see them. Lives until `forget(session)`
  // or the process ends.
  virtual ParameterPort* port(uint64_t session) = 0;
  virtual void forget(uint64_t session) = 0;
  // The actor of that name for other processes ("shards", "parameters"); an empty handle for an
  // unknown name.
  virtual caf::actor actor(const std::string& name) = 0;
  // Tasks come and go; requests to a lost one end at once.
  virtual void peer_down(const std::string& task, const std::string& reason) = 0;
  // Requests under way, for the message that says who waits for whom; empty if
  // there are none.
  virtual std::string waiting_for() = 0;
};

// Parameters of one session, on the side of its master.
class ParameterOwner {
 public:
  virtual ~ParameterOwner() = default;  // when nobody is inside the gate
  // Before the master stops: whoever waits for parameters, or trains them, gets cancelled.
  virtual void end() = 0;
};
struct ParameterOwnerOptions {
  std::string container;  // empty: the session's own
  int replicas = 0;       // 0: those in the graph
  int shards = 0;         // 0: one per task
};

// Makes what ProcessOptions::services names. Immutable, and shared by all processes.
class ServicesFactory {
 public:
  virtual ~ServicesFactory() = default;
  virtual void add_messages(caf::actor_system_config& config) const = 0;
  virtual std::unique_ptr<ProcessServices> make_services(Process& process) const = 0;
  virtual std::unique_ptr<ParameterOwner> make_parameter_owner(
      Master& master, ParameterOwnerOptions options) const = 0;
};

}  // namespace troupe
