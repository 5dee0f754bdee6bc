// HeapMemory: the heap as a Memory, for values that outlive every device or belong to none.
// Owner: its user; it has no state. Thread: any.
#pragma once

#include "devices/memory/memory.hpp"
#include "graph/base/buffer.hpp"

namespace troupe {

class HeapMemory final : public Memory {
 public:
  Buffer* allocate(int64_t bytes) override {
    return detach(Tensor::empty(DType::u8, Shape{bytes}));
  }
  MemoryStats stats() const override { return {}; }
  void release(Buffer*) noexcept override {}  // the heap releases its buffers itself
};

}  // namespace troupe
