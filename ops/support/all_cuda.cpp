// add_cuda_kernels: the table of ops with GPU kernels. Soft placement runs any other op on a CPU.
#include "ops/support/all_cuda.hpp"

namespace troupe {
namespace {

struct Row {
  const char* op;
  std::vector<Kernel> (*kernels)();
};

// One row a line, sorted.
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
