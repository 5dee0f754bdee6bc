// add_cuda_kernels: which ops have kernels for GPUs. An op that is not here runs on a CPU, by soft
// placement.
#include "ops/support/all_cuda.hpp"

namespace troupe {
namespace {

struct Row {
  const char* op;
  std::vector<Kernel> (*kernels)();
};

// One a line, sorted.
constexpr Row kRows[] = {
    {"MatMul", matmul_cuda_kernels},
};

}  // namespace

void add_cuda_kernels(Op& op) {
  for (const Row& row : kRows)
    if (op.name == row.op)
      for (const Kernel& kernel : row.kernels()) op.kernels.push_back(kernel);
}

}  // namespace troupe
