// bf16 kernels of convolutions in oneDNN, with sums in f32.
#pragma once

#include "troupe/op.hpp"

namespace troupe {

// Gives Convolution and its two gradients a bf16 kernel, if the processor multiplies bf16
// (multiplies_bf16()); leaves other ops alone. Sizes that oneDNN does not compute in f32 either are
// widened.
void add_bf16_convolution(Op& op);

}  // namespace troupe
