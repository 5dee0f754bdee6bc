// Which tensors a shard may write over or let go: those that are a block of the device's memory.
#pragma once

#include "devices/memory/pool.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

// Whether the tensor is as large as its buffer, and that is a large one of `pool`.
inline bool fills_block_of(const BufferOwner* pool, const Tensor& tensor) {
  if (!pool || !tensor.defined() || tensor.byte_size() <= Memory::kMarkedAbove) return false;
  Buffer* const buffer = tensor.buffer();
  return buffer->owner == pool && buffer->data() == tensor.raw() &&
         static_cast<int>(buffer->tag) == size_class::of(tensor.byte_size());
}

}  // namespace troupe
