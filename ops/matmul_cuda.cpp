// MatMul on GPUs, by cuBLAS. Shapes as in ops/matmul.cpp.
//
// cuBLAS stores columns first: what it sees of our row-major c[m, n] is transpose(c), so it is
// asked for transpose(c) = op(b) * op(a), with both inputs as they stand.
#include <algorithm>
#include <limits>

#include "devices/cuda.hpp"
#include "ops/all_cuda.hpp"
#include "ops/node.hpp"

namespace troupe {
namespace {

// One input: `batch` matrices of rows x columns as they stand in memory, row-major.
struct Side {
  Side(const Tensor& x, bool transposed) : transposed(transposed) {
    const Shape shape = x.shape();
    const int leading = shape.ndim() - 2;
    for (int d = 0; d < leading; ++d) batch *= shape[d];
    rows = shape[leading];
    columns = shape[leading + 1];
    stride = leading > 0 ? rows * columns : 0;  // without leading dimensions it stands for all
  }
  cublasOperation_t operation() const { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }
  int leading_dimension() const { return std::max(1, static_cast<int>(columns)); }

  bool transposed;
  int64_t batch = 1, rows = 0, columns = 0, stride = 0;
};

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
  const Side a(ctx.input(0), ctx.attr<bool>("transpose_a")),
      b(ctx.input(1), ctx.attr<bool>("transpose_b"));
  const int m = as_int(ctx, a.transposed ? a.columns : a.rows);
  const int k = as_int(ctx, a.transposed ? a.rows : a.columns);
  const int n = as_int(ctx, b.transposed ? b.rows : b.columns);
  const int batch = as_int(ctx, a.stride ? a.batch : b.batch);
  Tensor& output = ctx.output();
  const int64_t bytes = output.byte_size();
  if (bytes == 0) return;
  T* c = static_cast<T*>(output.mutable_raw());
  if (k == 0) {  // an empty sum
    check_cuda(cudaMemsetAsync(c, 0, static_cast<size_t>(bytes), gpu.stream), "cudaMemsetAsync");
    return;
  }
  const T one = 1, zero = 0;
  const auto gemm = [&](auto function, const char* name) {
    gpu.blas.check(function(gpu.handle, b.operation(), a.operation(), n, m, k, &one,
                            static_cast<const T*>(ctx.input(1).raw()), b.leading_dimension(),
                            b.stride, static_cast<const T*>(ctx.input(0).raw()),
                            a.leading_dimension(), a.stride, &zero, c, n, int64_t{m} * n, batch),
                   name);
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
