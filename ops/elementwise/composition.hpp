// For what is a graph of ops: functions that make one, and ops whose gradient is that of one.
#pragma once

#include <vector>

#include "ops/support/node.hpp"
#include "ops/support/refused.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// The gradient of an op that can also be written as a graph of others: theirs. For the gradients of
// gradients, which are rarely run, so that nobody has to write them down. build(inputs) returns the
// op's outputs.
template <class Build>
std::vector<Output> gradient_of_composition(const GradientContext& ctx, Build build) {
  // Copies that nothing else reads, so that the way back ends here.
  std::vector<Output> inputs;
  for (int i = 0; i < ctx.input_count(); ++i) inputs.push_back(identity(ctx.input(i)));
  const std::vector<Output> outputs = build(inputs);
  std::vector<Output> ys, y_gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!ctx.output_gradient(static_cast<int>(i)).defined()) continue;
    ys.push_back(outputs[i]);
    y_gradients.push_back(ctx.output_gradient(static_cast<int>(i)));
  }
  return ctx.gradients(ys, inputs, y_gradients);
}

}  // namespace troupe
