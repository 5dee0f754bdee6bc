// The CPU as a device: kernels run on the thread that launches them, and a copy is the value
// itself. A process may have several, each with a pool and a budget of its own.
#include "devices/device.hpp"
#include "devices/memory/pool.hpp"
#include "devices/memory/segment_pool.hpp"
#include "graph/op.hpp"

namespace troupe {
namespace {

class CpuDevice final : public Device {
 public:
  CpuDevice(std::string name, int64_t budget_bytes)
      : Device(name, DeviceKind::cpu), memory_(std::move(name), budget_bytes), segments_(memory_) {}

  Memory& memory() override { return memory_; }
  SegmentPool* segments() override { return &segments_; }
  bool on_host() const override { return true; }
  const Kernel* kernel_for(const Node& node) const override {
    return find_kernel(node, DeviceKind::cpu);
  }
  void launch(KernelCall& call) override { call.view().kernel->run(call); }
  void copy_from_host(const Tensor& value, Done done) override { done(Errc::ok, {}, value); }
  void copy_to_host(const Tensor& value, Done done) override { done(Errc::ok, {}, value); }
  void fence(Done done) override { done(Errc::ok, {}, {}); }

 private:
  PoolMemory memory_;
  SegmentPool segments_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(std::string name, int64_t budget_bytes) {
  return std::make_unique<CpuDevice>(std::move(name), budget_bytes);
}

}  // namespace troupe
