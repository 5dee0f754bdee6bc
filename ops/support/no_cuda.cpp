// Replaces ops/support/all_cuda.cpp in a build without CUDA: no op has a GPU kernel.
#include "ops/support/all_cuda.hpp"

namespace troupe {

void add_cuda_kernels(Op&) {}

}  // namespace troupe
