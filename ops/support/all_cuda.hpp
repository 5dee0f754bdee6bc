// The project's CUDA kernels, sorted: each function is implemented in its op's file,
// ops/<folder>/<op>_cuda.cpp, and listed in ops/support/all_cuda.cpp.
#pragma once

#include <vector>

#include "troupe/op.hpp"

namespace troupe {

// Adds the GPU kernels of `op`, if it has any and this is a build with CUDA.
void add_cuda_kernels(Op& op);

std::vector<Kernel> matmul_cuda_kernels();

}  // namespace troupe
