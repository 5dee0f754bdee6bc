// Changes of parameter values by the program itself, without gradients: assignments, sums, rows,
// counters. Implemented in ops/state/write_parameter.cpp and ops/state/write_parameter_rows.cpp.
//
// Such a parameter is not trained: a graph that also pushes gradients to it is refused. Shards
// apply a write when it arrives, and it counts once however often its step is repeated. Checkpoints
// hold the values, and a restore returns to those of its step.
//
// A write belongs to the replica that its parameter was read for and to the step of its run, as a
// push does: a run with nothing but a write is a step of its own. In one step
//   - it runs after all reads of the parameter for its replica that were in the graph when it was
//     added; so they see the values before it, and the step after this one sees those after it;
//   - it runs after the writes to the parameter for its replica that were added before it; in a
//     branch, only after those of the same frame and of the frames around it;
//   - any other order needs control inputs.
// Under the synchronous rule a step that is repeated, after the loss of a process, reads the same
// values as the first time. Only one replica may write to a parameter; another one is refused when
// its write arrives, as the values would depend on the order. Another replica's reads see the
// writes of the steps before if the writer's pushes run after its writes
// (ParameterGradient::reads), and its own pushes after its reads; otherwise they may see the
// newest, or fail as `stale`. Under the asynchronous rule any replica may write, in the order of
// arrival, and reads see the newest values.
//
// All throw: Error(invalid_argument) for an argument that is no parameter, for types that do not
// fit, and within a loop, as a write happens once a step. None has outputs or a gradient.
#pragma once

#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// parameter = value, of its dtype and shape.
Output assign(Output parameter, Output value, const std::vector<int32_t>& control_inputs = {},
              Origin at = Origin::here());
// parameter += value; integers wrap around. Not for bool.
Output assign_add(Output parameter, Output value, const std::vector<int32_t>& control_inputs = {},
                  Origin at = Origin::here());
// Row indices[i...] of the parameter = values[i..., :], or += it, in the order of the indices: of
// equal ones the last is assigned, and all are added. indices: i32 or i64, each in [0, rows).
Output scatter_update(Output parameter, Output indices, Output values,
                      const std::vector<int32_t>& control_inputs = {}, Origin at = Origin::here());
Output scatter_add(Output parameter, Output indices, Output values,
                   const std::vector<int32_t>& control_inputs = {}, Origin at = Origin::here());

// The number of times `update` has run in earlier steps: i64[], a parameter of that name.
struct Counter {
  Output value;
  Output update;
};
Counter counter(Graph& graph, std::string_view name, int64_t first = 0, Origin at = Origin::here());

}  // namespace troupe
