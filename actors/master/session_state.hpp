// What a Session holds, for training/, which adds parameters and towers to it.
#pragma once

#include <memory>

#include "actors/master/master.hpp"
#include "actors/cluster/process.hpp"

namespace troupe {

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
