// The shadow accelerator: a stand-in for a GPU on machines without one. Its memory is host memory
// behind addresses that fault when host code dereferences them, and its kernels, the plain CPU
// ones, run later on a thread of its own. So a violation of the device interface (reading a value
// without a copy, or too early) makes a test fail here, too.
//
// Ops that only alias elements (identity, reshape) do not enter the queue. Kernels that finish
// later cannot run in a queue: kernel_for() returns none, and soft placement puts parameters and
// gradient pushes on a CPU. Nor can an op whose shapes depend on values, because outputs are made
// before the kernel runs; if an op does not declare this, the launch is refused.
#include <cstring>
#include <new>

#include "devices/device.hpp"
#include "devices/failure.hpp"
#include "devices/held.hpp"
#include "devices/memory/pool.hpp"
#include "devices/run_context.hpp"
#include "devices/threads/work_queue.hpp"
#include "graph/base/buffer.hpp"
#include "graph/op.hpp"

namespace troupe {
namespace {

// Sets a bit that no address of a program has: x86-64 faults on such an address (it is not
// canonical), whatever is mapped.
constexpr uint64_t kDisplacement = uint64_t{1} << 62;

void* displaced(const void* address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the result is never dereferenced
  return reinterpret_cast<void*>(reinterpret_cast<uint64_t>(address) ^ kDisplacement);
}

// A header whose elements are elsewhere, and the tensor that keeps them alive.
struct ForeignBuffer {
  Buffer header;
  void* address;  // at the address that Buffer::data() reads
  Tensor elements;
};

class ForeignOwner final : public BufferOwner {
 public:
  void release(Buffer* buffer) noexcept override {
    delete reinterpret_cast<ForeignBuffer*>(buffer);
  }
};
ForeignOwner foreign_owner;  // no state, as buffers may outlive any device

Buffer* make_foreign(void* address, uint32_t flags, Tensor elements) {
  auto* foreign = new ForeignBuffer{
      {{1}, Buffer::kForeign | flags, &foreign_owner}, address, std::move(elements)};
  return &foreign->header;
}

// The elements of a tensor of a shadow device, as the device's own host code sees them.
Tensor host_view(const Tensor& tensor) {
  if (!tensor.defined() || tensor.on_host()) return tensor;
  return adopt(make_foreign(displaced(tensor.raw()), 0, tensor), tensor.dtype(), tensor.shape());
}

class ShadowMemory final : public Memory {
 public:
  ShadowMemory(std::string device, int64_t budget_bytes) : pool_(std::move(device), budget_bytes) {}
  Buffer* allocate(int64_t bytes) override {
    Tensor elements = pool_.make(DType::u8, Shape{bytes});
    void* address = displaced(elements.raw());
    return make_foreign(address, Buffer::kOffHost, std::move(elements));
  }
  MemoryStats stats() const override { return pool_.stats(); }
  void mark(Buffer* buffer, const HeldBuffer& use) noexcept override {
    if (buffer->owner == &foreign_owner)
      pool_.mark(buffer_of(reinterpret_cast<ForeignBuffer*>(buffer)->elements), use);
  }
  Held held(size_t most) const override { return pool_.held(most); }
  void reset_peak() noexcept override { pool_.reset_peak(); }
  int64_t take_peak() noexcept override { return pool_.take_peak(); }
  void release(Buffer* buffer) noexcept override { buffer->owner->release(buffer); }
  Memory& scratch() { return pool_; }

 private:
  PoolMemory pool_;
};

// A kernel in the queue, with all arguments of the launch.
struct QueuedKernel {
  QueuedKernel(const KernelCall& call, Memory& scratch_memory)
      : view(call.view()), run_context(call.run()), scratch(&scratch_memory) {
    for (int i = 0; i < call.input_count(); ++i) {
      slots.push_back(static_cast<uint32_t>(i));
      inputs.push_back(host_view(call.input(i)));
    }
    for (size_t i = 0; i < view.outputs.size(); ++i)
      outputs.push_back(host_view(call.outputs()[i]));
  }

  const Node& node() const { return *view.node; }
  // Throws: any exception of the kernel.
  void run() {
    std::vector<Tensor> results = outputs;
    KernelCall call;
    call.bind(view, inputs.data(), slots.data(), static_cast<int32_t>(inputs.size()),
              results.data(), *scratch, run_context,
              /*may_reuse_input0=*/false);
    view.kernel->run(call);
    for (size_t i = 0; i < results.size(); ++i) keep(i, results[i]);
  }

 private:
  // A kernel may pass on a value instead of filling the output that readers already have.
  void keep(size_t i, const Tensor& result) {
    if (buffer_of(result) == buffer_of(outputs[i])) return;
    TROUPE_CHECK(result.shape() == outputs[i].shape() && result.dtype() == outputs[i].dtype(),
                 "output ", i, " of ", describe(*view.node), " was to be ", outputs[i].dtype(),
                 outputs[i].shape(), ", but is ", result.dtype(), result.shape());
    std::memcpy(outputs[i].mutable_raw(), result.raw(), static_cast<size_t>(result.byte_size()));
  }

  NodeView view;
  RunContext run_context;
  Memory* scratch;
  std::vector<uint32_t> slots;
  std::vector<Tensor> inputs, outputs;  // as the host sees them
};

class ShadowDevice final : public Device {
 public:
  ShadowDevice(std::string name, int64_t budget_bytes)
      : Device(name, DeviceKind::shadow),
        memory_(name, budget_bytes),
        staging_(name + " (staging)", budget_bytes) {}

  Memory& memory() override { return memory_; }
  Memory* staging() override { return &staging_; }
  bool on_host() const override { return false; }

  const Kernel* kernel_for(const Node& node) const override {
    const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
    return kernel && kernel->run && !node.op->value_shapes ? kernel : nullptr;
  }

  void launch(KernelCall& call) override {
    Tensor* outputs = call.outputs();
    const NodeView& view = call.view();
    if (view.node->op->aliases) {
      outputs[0] = call.input(0).reshaped(inferred_output_shape(call, 0));
      return;
    }
    for (size_t i = 0; i < view.outputs.size(); ++i) {
      const auto output = static_cast<int>(i);
      const Shape shape = output_shape(call, output);
      outputs[i] =
          allocate_tensor(memory_, {&view, output, call.run().run, view.outputs[i].dtype, &shape});
    }
    auto kernel = std::make_shared<QueuedKernel>(call, memory_.scratch());
    queue_.put([this, kernel] {
      Failure failure = failure_of([&] { kernel->run(); });
      if (failure.code != Errc::ok) failure.text = failed_in(kernel->node(), failure.text);
      if (failed_.code == Errc::ok) failed_ = std::move(failure);
    });
  }

  void copy_from_host(const Tensor& value, Done done) override {
    queue_.put([this, value, done = std::move(done)] {
      Tensor copy;
      finish(done, copy, [&] {
        copy = memory_.make(value.dtype(), value.shape());
        std::memcpy(host_view(copy).mutable_raw(), host_view(value).raw(),
                    static_cast<size_t>(value.byte_size()));
      });
    });
  }

  void copy_to_host(const Tensor& value, Done done) override {
    queue_.put([this, value, done = std::move(done)] {
      Tensor copy;
      finish(done, copy, [&] {
        copy = Tensor::empty(value.dtype(), value.shape());
        std::memcpy(copy.mutable_raw(), host_view(value).raw(),
                    static_cast<size_t>(value.byte_size()));
      });
    });
  }

  void fence(Done done) override {
    queue_.put([this, done = std::move(done)] { finish(done, {}, [] {}); });
  }

 private:
  // Does `work` and reports its result, or the kernel that failed before it.
  template <class F>
  void finish(const Done& done, const Tensor& value, F&& work) {
    Failure failure = std::exchange(failed_, {});
    if (failure.code == Errc::ok) failure = failure_of(work);
    if (failure.code == Errc::ok)
      done(Errc::ok, {}, value);
    else
      done(failure.code, std::move(failure.text), {});
  }

  ShadowMemory memory_;
  PoolMemory staging_;
  Failure failed_;   // the first since the last `done`; used only by the queue's thread
  WorkQueue queue_;  // last: its destructor finishes work that uses the others
};

}  // namespace

std::unique_ptr<Device> make_shadow_device(std::string name, int64_t budget_bytes) {
  return std::make_unique<ShadowDevice>(std::move(name), budget_bytes);
}

}  // namespace troupe
