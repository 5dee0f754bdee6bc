// RunContext: what all firings of one run share, and ParameterPort, through which their kernels
// reach parameters. Owner: of a port the process (actors/cluster/services.hpp); of a RunContext the
// step. Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "troupe/tensor.hpp"

namespace troupe {

// The training step for which a kernel asks for a parameter.
struct ParameterStep {
  int64_t replica = 0;
  int64_t step = -1;  // -1: outside of training
  int64_t first =
      -1;  // steps of the replica before this one are over and will not be done again; -1: unknown
  // Larger in each place of a replica that has moved: a shard takes its pushes by the largest
  // alone. 0: it has not moved, and the incarnation of the process stands for it.
  uint64_t fence = 0;
};

// A change of the values themselves, without an optimizer (troupe/ops/parameters.hpp).
struct ParameterWrite {
  enum Kind : uint8_t { assign, add, assign_rows, add_rows } kind = assign;
  int64_t number = 0;  // its number among the replica's writes to the parameter
  Tensor indices;      // row numbers, i64
  Tensor values;
};

// Parameters as a kernel sees them: requested by name, answered later. The engine gives a kernel
// the port that its worker was given.
class ParameterPort {
 public:
  using Reply = std::function<void(Errc, std::string text, Tensor value)>;
  virtual ~ParameterPort() = default;
  // Asks for the values that this step may read; step -1 takes the newest at once.
  virtual void pull(const std::string& parameter, const ParameterStep& at, Reply reply) = 0;
  // The same for some rows: `indices`, i64, any shape. The reply's value is [indices..., row...].
  virtual void pull_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                         Reply reply) = 0;
  // Sends dL/d(parameter). The reply comes when the shard has acknowledged it; its value is
  // undefined.
  virtual void push(const std::string& parameter, const ParameterStep& at, Tensor gradient,
                    Reply reply) = 0;
  // push() of rows: `indices` is i64 [n]; `values` is [n, row...], or [k, row...] where each row
  // serves n / k consecutive indices. If not overridden, packs them for push()
  // (troupe/ops/parameters.hpp); a port that overrides it copies neither tensor for a shard of this
  // process that holds the whole parameter.
  virtual void push_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                         Tensor values, Reply reply);
  // Like push(), but sends a change of the values.
  virtual void write(const std::string& parameter, const ParameterStep& at, ParameterWrite change,
                     Reply reply) = 0;
};

class InputPort;  // sources of records (devices/input_port.hpp)
class Resources;  // state that ops keep between steps (devices/resources.hpp)

// Data that all firings of one run share.
struct RunContext {
  int64_t run = 0;  // unique in a session: names the activation
  // The training step, or -1 outside training; keys pushes, and random numbers if `draws` is 0.
  int64_t step = -1;
  int64_t first_step = -1;  // ParameterStep::first, for all replicas that the run pushes for
  uint64_t fence = 0;       // ParameterStep::fence, for the same replicas
  ParameterPort* parameters = nullptr;
  InputPort* input = nullptr;
  Resources* resources = nullptr;
  // Keys random numbers in place of the step: the count of runs outside training, or of a seed
  // (actors/master/local_runs.hpp). 0: the step keys them.
  uint64_t draws = 0;
};

}  // namespace troupe
