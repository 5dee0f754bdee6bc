// CudaMemory: the memory of one GPU. CudaStaging: pinned host memory that copies pass through.
//
// All work of a device is on one stream, so a block that is released while a kernel still reads it
// may be reused immediately: work that writes it comes later in the stream.
// Owner: the CudaDevice. Thread: any.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "devices/memory/memory.hpp"
#include "devices/memory/pool.hpp"

namespace troupe {

class CudaMemory final : public Memory {
 public:
  // Requires: `index` is a device. Does not throw; the GPU is first used when a buffer is
  // allocated.
  CudaMemory(std::string device, int index, int64_t budget_bytes);
  ~CudaMemory();

  Buffer* allocate(int64_t bytes) override;
  MemoryStats stats() const override;
  void mark(Buffer* buffer, const HeldBuffer& use) noexcept override;
  Held held(size_t most) const override;
  void reset_peak() noexcept override;
  int64_t take_peak() noexcept override;
  void release(Buffer* buffer) noexcept override { buffer->owner->release(buffer); }

 private:
  class Blocks;
  const std::shared_ptr<Blocks> blocks_;  // buffers hold it, too, so they may outlive the device
};

class CudaStaging {
 public:
  // Pinned memory is taken from the whole machine: beyond this limit, copies go through pageable
  // memory, correct but slower.
  static constexpr int64_t kBytesMax = int64_t{256} << 20;

  CudaStaging() = default;
  CudaStaging(const CudaStaging&) = delete;
  ~CudaStaging();

  // A block that is free again when the handle is dropped; nullptr if none is available.
  std::shared_ptr<void> take(int64_t bytes);

 private:
  void* take_block(int c);

  std::mutex mutex_;                        // guards the next two
  std::map<int, std::vector<void*>> free_;  // by size class
  int64_t reserved_bytes_ = 0;
};

}  // namespace troupe
