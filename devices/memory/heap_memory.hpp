// HeapMemory: the heap as a Memory, for values that outlive every device or belong to none.
// Owner: its user; it has no state. Thread: any.
#pragma once

#include "devices/memory/memory.hpp"

namespace troupe {

class HeapMemory final : public Memory {
 public:
  Buffer* allocate(int64_t bytes) override {
    return Tensor::empty(DType::u8, Shape{bytes}).detach();
  }
  MemoryStats stats() const override { return {}; }
  void release(Buffer*) noexcept override {}  // the heap releases its buffers itself
};

}  // namespace troupe
