// MatMul on GPUs, by cuBLAS. Shapes as in ops/linear_algebra/matmul.cpp.
//
// cuBLAS stores columns first: what it sees of our row-major c[m, n] is transpose(c), so it is
// asked for transpose(c) = op(b) * op(a), with both inputs as they stand.
#include <algorithm>
#include <limits>

#include "devices/cuda.hpp"
#include "ops/support/all_cuda.hpp"
#include "ops/linear_algebra/matmul.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

cublasOperation_t operation(const MatmulSide& side) {
  return side.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}
// The elements from row to row of a matrix as it stands in memory, row-major.
int leading_dimension(const MatmulSide& side) {
  return std::max(1, static_cast<int>(side.transposed ? side.rows() : side.columns()));
}

int as_int(const KernelContext& ctx, int64_t size) {
  if (size > std::numeric_limits<int>::max())
    throw ctx.error("has a size of ", size,
                    ", which cuBLAS cannot count; split the matrix or place it on a CPU");
  return static_cast<int>(size);
}

template <class T>
void cuda(KernelContext& ctx) {
  CudaContext& gpu = CudaContext::of(ctx);
  check_actual_shapes(ctx);
  const MatmulSide a{ctx.input(0).shape(), ctx.attr<bool>("transpose_a")},
      b{ctx.input(1).shape(), ctx.attr<bool>("transpose_b")};
  const int m = as_int(ctx, a.rows()), k = as_int(ctx, a.columns()), n = as_int(ctx, b.columns());
  Tensor& output = ctx.output();
  const int64_t bytes = output.byte_size();
  if (bytes == 0) return;
  T* c = static_cast<T*>(output.mutable_raw());
  if (k == 0) {  // an empty sum
    check_cuda(cudaMemsetAsync(c, 0, static_cast<size_t>(bytes), gpu.stream), "cudaMemsetAsync");
    return;
  }
  const MatmulProducts products = products_of(a, b, /*taller=*/false);
  const MatmulProducts::Sizes& s = products.each;
  const int batch = as_int(ctx, s.batch);
  const int64_t stride_a = s.batch_a > 1 ? s.m * s.k : 0, stride_b = s.batch_b > 1 ? s.k * s.n : 0,
                stride_c = s.m * s.n;
  const T one = 1, zero = 0;
  const auto gemm = [&](auto function, const char* name) {
    for (int64_t i = 0; i < products.count; ++i) {
      const auto [at_a, at_b] = products.at(i);
      gpu.blas.check(
          function(gpu.handle, operation(b), operation(a), n, m, k, &one,
                   static_cast<const T*>(ctx.input(1).raw()) + at_b, leading_dimension(b), stride_b,
                   static_cast<const T*>(ctx.input(0).raw()) + at_a, leading_dimension(a), stride_a,
                   &zero, c + i * s.batch * stride_c, n, stride_c, batch),
          name);
    }
  };
  if constexpr (std::is_same_v<T, float>)
    gemm(gpu.blas.sgemm_strided_batched, "cublasSgemmStridedBatched");
  else
    gemm(gpu.blas.dgemm_strided_batched, "cublasDgemmStridedBatched");
}

}  // namespace

std::vector<Kernel> matmul_cuda_kernels() {
  return {{DeviceKind::cuda, DType::f32, cuda<float>},
          {DeviceKind::cuda, DType::f64, cuda<double>}};
}

}  // namespace troupe
