// Work: what one firing of a kernel reads, writes and computes, for traces.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/kernel_call.hpp"

namespace troupe {

struct KernelWork {
  int64_t bytes = 0;   // of all inputs and outputs
  int64_t flops = -1;  // -1: not known
};

// What the node of a view does the work of; nullptr if it is what it is.
inline const Graph* program_of(const NodeView& view) {
  return view.state ? view.state->program() : nullptr;
}

// Looks at the inputs before the kernel runs, which may take one over, and at the outputs after.
class WorkCount {
 public:
  explicit WorkCount(const KernelCall& call);
  KernelWork after(const Tensor* outputs) const;

 private:
  const Node& node_;
  const Graph* const program_;
  std::vector<Shape> inputs_;
  int64_t bytes_ = 0;
};

}  // namespace troupe
