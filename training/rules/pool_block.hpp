// Tells which tensors a shard may overwrite or free: those that are a whole block of the pool.
// Owner: none, a plain function. Thread: any.
#pragma once

#include "devices/memory/pool.hpp"
#include "graph/base/buffer.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

// True if the tensor is as large as its buffer, and that is a large one of `pool`.
inline bool fills_block_of(const BufferOwner* pool, const Tensor& tensor) {
  if (!pool || !tensor.defined() || tensor.byte_size() <= Memory::kMarkedAbove) return false;
  Buffer* const buffer = buffer_of(tensor);
  return buffer->owner == pool && buffer->data() == tensor.raw() &&
         static_cast<int>(buffer->tag) == size_class::of(tensor.byte_size());
}

}  // namespace troupe
