// Device: memory, a queue and copies of one CPU, GPU or shadow accelerator. It knows no op.
// The process owns it; an actor with its name tells of its memory
// (actors/cluster/device_actor.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "devices/kernel_call.hpp"
#include "devices/memory/memory.hpp"

namespace troupe {

class Device {
 public:
  using Done = std::function<void(Errc, std::string text, Tensor value)>;

  virtual ~Device() = default;
  const std::string& name() const { return name_; }  // "/job:worker/task:1/device:cpu:0"
  DeviceKind kind() const { return kind_; }

  virtual Memory& memory() = 0;
  // Host memory that copy_from_host() reads best: where kernels of other devices make what comes
  // here. nullptr: any host memory is as good.
  virtual Memory* staging() { return nullptr; }
  // True: kernels run on the thread that launches them, and host code may read their outputs at
  // once.
  virtual bool on_host() const = 0;
  // The kernel for a node here; nullptr if there is none.
  virtual const Kernel* kernel_for(const Node& node) const = 0;
  // On a host device: runs the kernel. Else: makes the outputs and puts the kernel in the queue;
  // the elements follow in queue order. Throws what a kernel throws while it still can.
  virtual void launch(KernelCall& call) = 0;
  // A copy of `value` (from the host; to the host), in queue order. `done` may be called on any
  // thread, and tells of any kernel of this queue that failed since the last `done`. A host device
  // passes the value itself.
  virtual void copy_from_host(const Tensor& value, Done done) = 0;
  virtual void copy_to_host(const Tensor& value, Done done) = 0;
  // `done` once all that was put in the queue before has finished; its value is undefined.
  virtual void fence(Done done) = 0;

 protected:
  Device(std::string name, DeviceKind kind) : name_(std::move(name)), kind_(kind) {}

 private:
  std::string name_;
  DeviceKind kind_;
};

std::unique_ptr<Device> make_cpu_device(std::string name, int64_t budget_bytes);
// Host memory that host code cannot touch (its addresses fault), and a queue on a thread of its
// own. For tests of this interface where no accelerator is. What it cannot run: devices/shadow.cpp.
std::unique_ptr<Device> make_shadow_device(std::string name, int64_t budget_bytes);
// GPUs this process can see; 0 without CUDA. Throws from make: Error(bad_configuration) when there
// is none of that index.
int cuda_device_count();
std::unique_ptr<Device> make_cuda_device(std::string name, int index, int64_t budget_bytes);

}  // namespace troupe
