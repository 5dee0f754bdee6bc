// HeapMemory: the heap as a Memory, for values that outlive every device or belong to none.
#pragma once

#include "devices/memory/memory.hpp"

namespace troupe {

class HeapMemory final : public Memory {
 public:
  Buffer* allocate(int64_t bytes) override {
    return Tensor::empty(DType::u8, Shape{bytes}).detach();
  }
  MemoryStats stats() const override { return {}; }
  void release(Buffer*) noexcept override {}  // the heap takes its buffers back itself
};

}  // namespace troupe
