// Ops that a test adds to those of the project, for ops_with().
#pragma once

#include "troupe/custom_op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// y = f(x), of the shape of x.
inline Op own_op(std::string name, Kernel kernel) {
  return {.name = std::move(name),
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = [](const InferContext& ctx) { return std::vector{ctx.input(0)}; },
          .no_gradient = "it is for a test",
          .kernels = {std::move(kernel)}};
}

}  // namespace troupe
