// Work: what one firing of a kernel reads, writes and computes, for traces. How many floating-point
// operations an op takes is said in its own file, by a rule of its shapes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "devices/kernel_call.hpp"

namespace troupe {

// Multiplications and additions of floating-point numbers, each counted; shapes are known.
using FlopsRule = int64_t (*)(const Node& node, const std::vector<Shape>& inputs,
                              const std::vector<Shape>& outputs);

// At namespace scope in the file of an op: says how much work it is. An op without a rule is one
// whose time is memory's.
struct FlopsOf {
  FlopsOf(const char* op, FlopsRule rule);
};
FlopsRule flops_rule(std::string_view op);  // nullptr if there is none

struct KernelWork {
  int64_t bytes = 0;   // of all inputs and outputs
  int64_t flops = -1;  // -1: not known
};

// Looks at the inputs before the kernel runs, which may take one over, and at the outputs after.
class WorkCount {
 public:
  explicit WorkCount(const KernelCall& call);
  KernelWork after(const Tensor* outputs) const;

 private:
  const Node& node_;
  std::vector<Shape> inputs_;
  int64_t bytes_ = 0;
};

}  // namespace troupe
