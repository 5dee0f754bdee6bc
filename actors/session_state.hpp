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
// Defined in training/parameter_group.cpp.
std::unique_ptr<ParameterOwner> make_parameter_owner(Master& master);

struct SessionState {
  std::unique_ptr<Process> process;
  std::unique_ptr<Master> master;
  std::unique_ptr<ParameterOwner> parameters;
  bool closed = false;

  ~SessionState() { close(); }
  void close();
};

}  // namespace troupe
