// The view that a CUDA kernel has of its device: the stream and the cuBLAS handle it is launched
// on. Only ops/*cuda* and devices/cuda* include this, and only with TROUPE_CUDA.
// Owner: CudaDevice::launch(), for one call. Thread: the one that launches the kernel.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "devices/kernel_call.hpp"

namespace troupe {

// The functions of cuBLAS that the library calls. cuBLAS is loaded when the first CUDA device is
// made and not linked: linking costs each process 150 MiB and a tenth of a second, used or not.
struct CudaBlas {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSgemmStridedBatched) sgemm_strided_batched = nullptr;
  decltype(&cublasDgemmStridedBatched) dgemm_strided_batched = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;

  // Loads it once in a process. Throws: Error(bad_configuration) with the places searched.
  static const CudaBlas& loaded();
  // Throws: Error(kernel_failed) with `what` and the library's text, unless status is success.
  void check(cublasStatus_t status, const char* what) const;
};

// Throws: Error(out_of_memory, kernel_failed or device_lost) with `what` and the runtime's text,
// unless status is success. device_lost: CUDA returns the error to all later calls of the process.
void check_cuda(cudaError_t status, const char* what);

// The context of a kernel on a CUDA device. Inputs and outputs have device addresses (raw()); put
// work on the stream.
class CudaContext final : public KernelCall {
 public:
  CudaContext(const KernelCall& call, cudaStream_t stream, const CudaBlas& blas,
              cublasHandle_t handle)
      : KernelCall(call), stream(stream), blas(blas), handle(handle) {}
  // Requires: a CUDA device runs the kernel; it passes only contexts of this class.
  static CudaContext& of(KernelContext& ctx) { return static_cast<CudaContext&>(ctx); }

  const cudaStream_t stream;
  const CudaBlas& blas;
  const cublasHandle_t handle;
};

}  // namespace troupe
