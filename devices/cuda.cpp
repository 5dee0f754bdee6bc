// A GPU as a device: one stream for kernels and copies, so all work is done in the order of the
// calls. Copies pass through pinned memory; a thread waits for their events, in order, and calls
// `done`.
//
// Kernels must not be given host addresses: an input that is on the host is uploaded at launch.
#include <cstring>

#include "devices/cuda.hpp"
#include "devices/cuda_memory.hpp"
#include "devices/device.hpp"
#include "devices/failure.hpp"
#include "devices/threads/work_queue.hpp"
#include "graph/op.hpp"

namespace troupe {
namespace {

class Event {
 public:
  explicit Event(cudaStream_t stream) {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
               "cudaEventCreate");
    const cudaError_t status = cudaEventRecord(event_, stream);
    if (status != cudaSuccess) cudaEventDestroy(event_);
    check_cuda(status, "cudaEventRecord");
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // Throws: the error of earlier work on the stream.
  void wait() { check_cuda(cudaEventSynchronize(event_), "work on the GPU"); }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::string name, int index, int64_t budget_bytes)
      : Device(name, DeviceKind::cuda),
        index_(index),
        blas_(CudaBlas::loaded()),
        memory_(std::move(name), index, budget_bytes) {
    check_cuda(cudaSetDevice(index_), "cudaSetDevice");
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    try {
      blas_.check(blas_.create(&handle_), "cublasCreate");
      blas_.check(blas_.set_stream(handle_, stream_), "cublasSetStream");
    } catch (...) {  // a constructor that throws runs no destructor
      clean_up();
      throw;
    }
  }
  ~CudaDevice() {
    completions_.finish();
    cudaSetDevice(index_);
    cudaStreamSynchronize(stream_);
    clean_up();
  }

  Memory& memory() override { return memory_; }
  bool on_host() const override { return false; }
  const Kernel* kernel_for(const Node& node) const override {
    const Kernel* kernel = find_kernel(node, DeviceKind::cuda);
    return kernel && kernel->run ? kernel : nullptr;
  }

  void launch(KernelCall& call) override {
    std::lock_guard guard(mutex_);
    check_cuda(cudaSetDevice(index_), "cudaSetDevice");
    std::vector<Tensor> inputs;
    std::vector<uint32_t> slots;
    for (int i = 0; i < call.input_count(); ++i) {
      slots.push_back(static_cast<uint32_t>(i));
      inputs.push_back(on_device(call.input(i)));
    }
    KernelCall here;
    here.bind(call.view(), inputs.data(), slots.data(), call.input_count(), call.outputs(), memory_,
              call.run(), /*may_reuse_input0=*/false);
    CudaContext ctx(here, stream_, blas_, handle_);
    call.view().kernel->run(ctx);
  }

  void copy_from_host(const Tensor& value, Done done) override {
    start(std::move(done), [&]() -> std::function<Tensor()> {
      const int64_t bytes = value.byte_size();
      Tensor copy = memory_.make(value.dtype(), value.shape());
      const std::shared_ptr<void> pinned = staging_.take(bytes);
      if (pinned) std::memcpy(pinned.get(), value.raw(), static_cast<size_t>(bytes));
      copy_bytes(copy.mutable_raw(), pinned ? pinned.get() : value.raw(), bytes,
                 cudaMemcpyHostToDevice);
      return [value, copy, pinned] { return copy; };
    });
  }

  void copy_to_host(const Tensor& value, Done done) override {
    start(std::move(done), [&]() -> std::function<Tensor()> {
      if (value.on_host()) return [value] { return value; };
      const int64_t bytes = value.byte_size();
      Tensor copy = Tensor::empty(value.dtype(), value.shape());
      const std::shared_ptr<void> pinned = staging_.take(bytes);
      copy_bytes(pinned ? pinned.get() : copy.mutable_raw(), value.raw(), bytes,
                 cudaMemcpyDeviceToHost);
      return [value, copy, pinned, bytes]() mutable {
        if (pinned) std::memcpy(copy.mutable_raw(), pinned.get(), static_cast<size_t>(bytes));
        return copy;
      };
    });
  }

  void fence(Done done) override {
    start(std::move(done), [] { return [] { return Tensor{}; }; });
  }

 private:
  // Puts work on the stream with `enqueue`. The function that this returns makes the value for
  // `done` when the stream has reached it, and holds the tensors that the work reads and writes
  // until then. Any failure goes to `done`, the only receiver of it.
  template <class F>
  void start(Done done, F&& enqueue) {
    std::function<Tensor()> result;
    std::shared_ptr<Event> event;
    const Failure not_started = failure_of([&] {
      std::lock_guard guard(mutex_);
      check_cuda(cudaSetDevice(index_), "cudaSetDevice");
      result = enqueue();
      event = std::make_shared<Event>(stream_);
    });
    if (not_started.code != Errc::ok) {
      if (result) cudaStreamSynchronize(stream_);  // the work may have begun
      done(not_started.code, not_started.text, {});
      return;
    }
    completions_.put([this, done = std::move(done), result = std::move(result), event] {
      Tensor value;
      const Failure failed = failure_of([&] {
        event->wait();
        value = result();
      });
      if (failed.code == Errc::ok)
        done(Errc::ok, {}, std::move(value));
      else
        done(failed.code, detail::concat("device ", name(), ": ", failed.text), {});
    });
  }

  void copy_bytes(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0)
      check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream_),
                 "cudaMemcpyAsync");
  }

  // Uploads pageable memory: CUDA has read it when the call returns.
  Tensor on_device(const Tensor& value) {
    if (!value.defined() || !value.on_host()) return value;
    Tensor copy = memory_.make(value.dtype(), value.shape());
    copy_bytes(copy.mutable_raw(), value.raw(), value.byte_size(), cudaMemcpyHostToDevice);
    return copy;
  }

  void clean_up() {
    if (handle_) blas_.destroy(handle_);
    cudaStreamDestroy(stream_);
  }

  const int index_;
  const CudaBlas& blas_;
  CudaMemory memory_;
  CudaStaging staging_;
  std::mutex mutex_;  // one thread at a time enqueues; guards the next two
  cudaStream_t stream_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  WorkQueue completions_;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // no driver, or one that is too old, counts as no device
  return 0;
}

std::unique_ptr<Device> make_cuda_device(std::string name, int index, int64_t budget_bytes) {
  const int count = cuda_device_count();
  if (index < 0 || index >= count)
    throw Error(Errc::bad_configuration, "device ", name, " wants GPU ", index,
                ", but this process sees ", count,
                " (nvidia-smi lists them; CUDA_VISIBLE_DEVICES hides some)");
  return std::make_unique<CudaDevice>(std::move(name), index, budget_bytes);
}

}  // namespace troupe
