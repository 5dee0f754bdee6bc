// What a Session holds, for training/, which adds parameters and towers to it.
#pragma once

#include <memory>

#include "actors/master.hpp"
#include "actors/process.hpp"

namespace troupe {

// Parameters of one session, on the master's side. Made by training/.
class ParameterOwner {
 public:
  virtual ~ParameterOwner() = default;  // when nobody is inside the gate
  // Before the master stops: whoever waits for parameters, or trains them, gets cancelled.
  virtual void end() = 0;
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
  // Also twice, and while other threads run calls or train: they end, and are waited for.
  void close();
  Visit open() const;  // Throws: Error(cancelled) once the session is closed.
  // `system` null: one of its own.
  static Session local(Graph& graph, ProcessOptions options, caf::actor_system* system);
};

}  // namespace troupe
