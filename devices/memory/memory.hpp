// Memory: where the elements of tensors live on one device. Pooled, aligned, with a budget and
// statistics.
#pragma once

#include <vector>

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

// A buffer that somebody holds, for the message that says who has the memory.
struct HeldBuffer {
  int64_t bytes = 0;
  uint64_t label = 0;  // what mark() was told (devices/held.hpp); 0: nothing
  int64_t run = -1;
};

class Memory : public BufferOwner {
 public:
  // A buffer of at least `bytes`, aligned to 64 (16 up to 48 bytes), with one reference. Any
  // thread. Throws: Error(out_of_memory) naming the device, the request and the budget.
  virtual Buffer* allocate(int64_t bytes) = 0;
  virtual MemoryStats stats() const = 0;
  // Remembers with a buffer of this memory what it is for. Requires: more than kMarkedAbove bytes,
  // so that it costs nothing beside filling them. The default forgets it.
  static constexpr int64_t kMarkedAbove = 64 << 10;
  virtual void mark(Buffer* /*buffer*/, const HeldBuffer& /*use*/) noexcept {}
  // What somebody holds, of buffers above kMarkedAbove: the largest ones, at most `most` of them,
  // largest first, and how many there are in all, with their bytes. Any thread, while others
  // allocate; takes as long as there are blocks.
  struct Held {
    std::vector<HeldBuffer> largest;
    int64_t count = 0, bytes = 0;  // of all of them
  };
  virtual Held held(size_t /*most*/) const { return {}; }
  // stats().peak_bytes begins anew at what is used.
  virtual void reset_peak() noexcept {}
  // The most that was used since the call before; stats().peak_bytes stays. For one caller, who
  // draws a line over time.
  virtual int64_t take_peak() noexcept { return stats().used_bytes; }
  // Requires: shape is known. Throws: as allocate(); Error(invalid_argument) past 2^59 elements.
  Tensor make(DType dtype, const Shape& shape) {
    return Tensor::adopt(allocate(shape.size() * size_of(dtype)), dtype, shape);
  }

 protected:
  ~Memory() = default;
};

}  // namespace troupe
