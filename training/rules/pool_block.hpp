// Tells which tensors a shard may overwrite or free: those that are a whole block of its memory.
// Owner: none, a plain function. Thread: any.
#pragma once

#include "devices/memory/memory.hpp"
#include "devices/memory/segment_pool.hpp"
#include "graph/base/buffer.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

// The memory of a shard's process; nulls: the heap.
struct ShardMemory {
  const BufferOwner* pool = nullptr;
  SegmentPool* segments = nullptr;
  Memory* values = nullptr;  // makes decoded gradients, and values as they travel

  Tensor make(DType dtype, const Shape& shape) const {
    return values ? values->make(dtype, shape) : Tensor::empty(dtype, shape);
  }
};

// True if the tensor is as large as its buffer, and that is a large one of `memory`.
inline bool fills_block_of(const ShardMemory& memory, const Tensor& tensor) {
  if (!tensor.defined() || tensor.byte_size() <= Memory::kMarkedAbove) return false;
  Buffer* const buffer = buffer_of(tensor);
  const bool ours = buffer->owner == memory.pool ||
                    (memory.segments && buffer->owner == memory.segments->owner());
  return ours && buffer->data() == tensor.raw() &&
         static_cast<int>(buffer->tag) == size_class::of(tensor.byte_size());
}

}  // namespace troupe
