// What a Session holds, for training/, which adds parameters and towers to it.
#pragma once

#include <memory>

#include "actors/master.hpp"
#include "actors/process.hpp"

namespace troupe {

// Parameters of one session, on the master's side. Made by training/; stopped before the master.
class ParameterOwner {
 public:
  virtual ~ParameterOwner() = default;
};
struct ParameterOwnerOptions {
  std::string container;  // empty: the session's own
  int slots = 0;          // 0: those in the graph
  int shards = 0;         // 0: one per task
};
// Defined in training/parameter_group.cpp.
std::unique_ptr<ParameterOwner> make_parameter_owner(Master& master, ParameterOwnerOptions options);

struct SessionState {
  std::unique_ptr<Process> process;
  std::unique_ptr<Master> master;
  std::shared_ptr<Gate> gate;  // the master's; stays
  std::unique_ptr<ParameterOwner> parameters;
  std::mutex closing;  // held while the session is being closed

  ~SessionState() { close(); }
  void close();  // also twice, and while other threads run calls: they end, and are waited for
  Visit open() const;  // Throws: Error(cancelled) once the session is closed.
  // `system` null: one of its own.
  static Session local(Graph& graph, ProcessOptions options, caf::actor_system* system);
};

}  // namespace troupe
