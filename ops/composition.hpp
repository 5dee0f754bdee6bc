// For what is a graph of ops: functions that make one, and ops whose gradient is that of one.
#pragma once

#include <initializer_list>
#include <vector>

#include "ops/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// What such a function throws.
template <class... Parts>
Error refused(const char* function, Origin at, const Parts&... parts) {
  return Error(Errc::invalid_argument, function, " made at ", at.file, ":", at.line, ": ",
               detail::concat(parts...));
}

inline void require_defined(const char* function, Origin at, std::initializer_list<Output> inputs) {
  for (const Output& input : inputs)
    if (!input.defined())
      throw refused(function, at, "its inputs are undefined Outputs; pass the results of ops");
}

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
  return gradients(ys, inputs, y_gradients);
}

}  // namespace troupe
