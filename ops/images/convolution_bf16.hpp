// Convolutions of bf16 in oneDNN, with sums in f32.
#pragma once

#include "troupe/op.hpp"

namespace troupe {

// Gives Convolution and its two gradients a kernel for bf16, where the processor multiplies bf16
// (multiplies_bf16()); leaves other ops alone. What oneDNN is not given in f32 either is widened.
void add_bf16_convolution(Op& op);

}  // namespace troupe
