// Memory: where the elements of tensors live on one device. Pooled, aligned, with a budget and
// statistics.
#pragma once

#include "troupe/op.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

struct MemoryStats {
  int64_t used_bytes = 0;      // in tensors that somebody holds
  int64_t reserved_bytes = 0;  // taken from the system: used and free lists
  int64_t peak_bytes = 0;      // highest used_bytes so far
  int64_t budget_bytes = 0;    // reserved_bytes never goes past it
  int64_t system_allocations = 0;
};

// What a memory throws that has no room: the device, the request, what is in use, and the remedy.
Error out_of_memory(const std::string& device, int64_t bytes, const MemoryStats& now);

class Memory : public BufferOwner {
 public:
  // A buffer of at least `bytes`, aligned to 64 (16 up to 48 bytes), with one reference. Any
  // thread. Throws: Error(out_of_memory) naming the device, the request and the budget.
  virtual Buffer* allocate(int64_t bytes) = 0;
  virtual MemoryStats stats() const = 0;
  // Requires: shape is known. Throws: as allocate(); Error(invalid_argument) past 2^59 elements.
  Tensor make(DType dtype, const Shape& shape) {
    return Tensor::adopt(allocate(shape.size() * size_of(dtype)), dtype, shape);
  }

 protected:
  ~Memory() = default;
};

}  // namespace troupe
