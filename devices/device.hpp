// Device: memory, a queue and copies of one CPU, GPU or shadow accelerator. It knows no op. The
// actor of its name stands for it (actors/cluster/device_actor.hpp).
// Owner: the process. Thread: any; `done` may be called on any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "devices/kernel_call.hpp"
#include "devices/memory/memory.hpp"

namespace troupe {

class SegmentPool;

class Device {
 public:
  using Done = std::function<void(Errc, std::string text, Tensor value)>;

  virtual ~Device() = default;
  const std::string& name() const { return name_; }  // "/job:worker/task:1/device:cpu:0"
  DeviceKind kind() const { return kind_; }

  virtual Memory& memory() = 0;
  // Host memory that copy_from_host() reads fastest; kernels of other devices make values for this
  // device there. nullptr: any host memory will do.
  virtual Memory* staging() { return nullptr; }
  // Memory of a host device that other processes of the machine can read; nullptr: none.
  virtual SegmentPool* segments() { return nullptr; }
  // True: kernels run on the thread that launches them, and host code may read their outputs
  // immediately.
  virtual bool on_host() const = 0;
  // The kernel for a node on this device; nullptr if there is none.
  virtual const Kernel* kernel_for(const Node& node) const = 0;
  // On a host device, runs the kernel. Otherwise makes the outputs and puts the kernel in the
  // queue; the elements follow in queue order. Throws an exception of the kernel only if it runs in
  // this call.
  virtual void launch(KernelCall& call) = 0;
  // Copies `value` (from the host; to the host), in queue order. `done` may be called on any
  // thread, and reports a kernel of this queue that failed since the last `done`. A host device
  // passes the value itself.
  virtual void copy_from_host(const Tensor& value, Done done) = 0;
  virtual void copy_to_host(const Tensor& value, Done done) = 0;
  // Calls `done` when all work queued before has finished; its value is undefined.
  virtual void fence(Done done) = 0;

  // The device does no work any more, for good: a kernel or the queue has failed with
  // Errc::device_lost, or the device's actor has died. Steps that begin later are refused; a step
  // under way fails when one of its kernels does. The first reason stays.
  void lose(const std::string& reason);
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  const std::string& loss() const { return loss_; }  // the reason. Requires: lost()
  // `told` is called once, with the reason, on the thread that loses the device; at once if it is
  // lost. It replaces the one before; nullptr takes it back.
  void on_loss(std::function<void(const std::string& reason)> told);

 protected:
  Device(std::string name, DeviceKind kind) : name_(std::move(name)), kind_(kind) {}

 private:
  std::string name_;
  DeviceKind kind_;
  std::atomic<bool> lost_{false};
  std::string loss_;  // written before lost_
  std::mutex mutex_;  // guards told_, and the writing of loss_
  std::function<void(const std::string&)> told_;
};

// The refusal of work on a lost device. Requires: device.lost()
Error device_lost(const Device& device);
std::unique_ptr<Device> make_cpu_device(std::string name, int64_t budget_bytes);
// Host memory that host code cannot touch (its addresses fault), and a queue on a thread of its
// own. It tests this interface on machines without an accelerator. devices/shadow.cpp lists its
// limits.
std::unique_ptr<Device> make_shadow_device(std::string name, int64_t budget_bytes);
// The number of GPUs that this process can see; 0 without CUDA. make_cuda_device() throws
// Error(bad_configuration) if there is no GPU of that index.
int cuda_device_count();
std::unique_ptr<Device> make_cuda_device(std::string name, int index, int64_t budget_bytes);

}  // namespace troupe
