// The CUDA kernels of the project, sorted: each function is implemented in the file of its op,
// ops/<op>_cuda.cpp, and listed in ops/support/all_cuda.cpp.
#pragma once

#include <vector>

#include "troupe/op.hpp"

namespace troupe {

// Adds the kernels for GPUs, if this is built with CUDA and there are any for `op`.
void add_cuda_kernels(Op& op);

std::vector<Kernel> matmul_cuda_kernels();

}  // namespace troupe
