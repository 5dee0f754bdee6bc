// StepPool: the steps of an executor that have ended, kept for its next runs. A thread that runs a
// program again finds the step that it gave back last where only this thread looks.
//
// Owner: the executor. Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "actors/engine/step.hpp"
#include "devices/device.hpp"
#include "devices/threads/thread_index.hpp"

namespace troupe {

class StepPool {
 public:
  explicit StepPool(const Device* device) : device_(device) {}
  ~StepPool();
  StepPool(const StepPool&) = delete;

  // A step that has ended; null if there is none.
  StepPtr take();
  void give(StepPtr step);
  // The caches of all idle steps on `device`, in every pool of the process, go back to the device's
  // memory. Called when an allocation fails.
  static void free_idle(const Device* device);

 private:
  static constexpr size_t kIdleMax = 32;  // steps in flight past this allocate

  // A step that a thread gave back, for it to take again: see thread_index(). Holds a reference.
  struct alignas(kCacheLine) Spare {
    std::atomic<Step*> step{nullptr};
    StepPtr take() {
      return {step.exchange(nullptr, std::memory_order_acq_rel), /*add_ref=*/false};
    }
  };

  const Device* const device_;
  std::array<Spare, kThreadIndices> spares_;
  std::mutex mutex_;  // guards the next
  std::vector<StepPtr> idle_;
};

}  // namespace troupe
