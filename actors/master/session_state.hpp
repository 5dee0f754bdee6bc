// SessionState: the inside of a Session. training/ adds parameters and towers to it.
// Owner: a Session. Thread: any.
#pragma once

#include <memory>

#include "actors/master/master.hpp"
#include "actors/cluster/process.hpp"

namespace troupe {

struct SessionState {
  std::unique_ptr<Process> process;
  std::unique_ptr<Master> master;
  std::shared_ptr<Gate> gate;  // the master's; outlives it
  std::unique_ptr<ParameterOwner> parameters;
  std::mutex closing;   // held while the session is being closed
  std::mutex becoming;  // held while a kernel is replaced

  ~SessionState() { close(); }
  // May be called twice, and while other threads run calls or train: their runs end, and close()
  // waits for them.
  void close();
  Gate::Visit open() const;  // Throws: Error(cancelled) once the session is closed.
  // `system` null: the session has its own.
  static Session local(Graph& graph, ProcessOptions options, caf::actor_system* system);
};

}  // namespace troupe
