// The loader of cuBLAS (devices/cuda.hpp), and the checks of CUDA's status codes.
#include <dlfcn.h>

#include "devices/cuda.hpp"

namespace troupe {
namespace {

template <class F>
void find(void* library, F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function)
    throw Error(Errc::bad_configuration, "cuBLAS has no function ", name,
                "; install the version of CUDA that this was built with");
}

CudaBlas load() {
  // By name on the loader's path, else at the path known when this was built. Never closed: handles
  // may live until exit.
  void* library = dlopen(TROUPE_CUBLAS_NAME, RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen(TROUPE_CUBLAS_PATH, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(Errc::bad_configuration, "CUDA devices need cuBLAS, and there is neither a ",
                TROUPE_CUBLAS_NAME, " on the loader's path nor ", TROUPE_CUBLAS_PATH,
                "; install it or extend LD_LIBRARY_PATH");
  CudaBlas blas;
  find(library, blas.create, "cublasCreate_v2");
  find(library, blas.destroy, "cublasDestroy_v2");
  find(library, blas.set_stream, "cublasSetStream_v2");
  find(library, blas.sgemm_strided_batched, "cublasSgemmStridedBatched");
  find(library, blas.dgemm_strided_batched, "cublasDgemmStridedBatched");
  find(library, blas.status_string, "cublasGetStatusString");
  return blas;
}

// Source: the CUDA Runtime API, cudaError_t: "leaves the process in an inconsistent state and any
// further CUDA work will return the same error", and errors of the hardware.
Errc code_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return Errc::out_of_memory;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return Errc::device_lost;
    default:
      return Errc::kernel_failed;
  }
}

}  // namespace

const CudaBlas& CudaBlas::loaded() {
  static const CudaBlas blas = load();
  return blas;
}

void CudaBlas::check(cublasStatus_t status, const char* what) const {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(Errc::kernel_failed, what, " failed: ", status_string(status), " (cuBLAS status ",
                int{status}, ")");
}

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Error(code_of(status), what, " failed: ", cudaGetErrorString(status), " (",
              cudaGetErrorName(status), ")");
}

}  // namespace troupe
