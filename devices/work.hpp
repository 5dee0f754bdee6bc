// Work: the bytes that one firing of a kernel reads and writes, and its flops, for traces.
// Owner: the firing that is traced. Thread: that of the firing.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/kernel_call.hpp"

namespace troupe {

struct KernelWork {
  int64_t bytes = 0;   // of all inputs and outputs
  int64_t flops = -1;  // -1: not known
};

// The nodes whose work the node of a view does; nullptr if it does only its own.
inline const Graph* program_of(const NodeView& view) {
  const auto* shared = dynamic_cast<const ProgramState*>(view.state.get());
  return shared ? &shared->program() : nullptr;
}

// Reads the inputs before the kernel runs, which may take one over, and the outputs after it.
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
