// Memory: the source of tensors' elements on one device. Pooled, aligned, with a budget and
// statistics.
// Owner: the device; of a PoolCache an activation. Thread: any, except for a PoolCache.
#pragma once

#include <vector>

#include "graph/base/buffer.hpp"
#include "troupe/op.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

struct MemoryStats {
  int64_t used_bytes = 0;      // in tensors that are alive, and in segments
  int64_t reserved_bytes = 0;  // taken from the system: used and free blocks
  int64_t peak_bytes = 0;      // highest used_bytes so far
  int64_t budget_bytes = 0;    // reserved_bytes never exceeds it
  int64_t system_allocations = 0;
};

// The error of a memory without room: the device, the request, the bytes in use, and the remedy.
Error out_of_memory(const std::string& device, int64_t bytes, const MemoryStats& now);

// A buffer in use, for the message that lists the holders of memory.
struct HeldBuffer {
  int64_t bytes = 0;
  uint64_t label = 0;  // the argument of mark() (devices/held.hpp); 0: unmarked
  int64_t run = -1;
};

class Memory : public BufferOwner {
 public:
  // A buffer of at least `bytes`, aligned to 64 (16 up to 48 bytes), with one reference. Any
  // thread. Throws: Error(out_of_memory) naming the device, the request and the budget.
  virtual Buffer* allocate(int64_t bytes) = 0;
  virtual MemoryStats stats() const = 0;
  // Records the purpose of a buffer of this memory. Requires: more than kMarkedAbove bytes, so that
  // the cost is small compared with filling the buffer. The default ignores it.
  static constexpr int64_t kMarkedAbove = 64 << 10;
  virtual void mark(Buffer* /*buffer*/, const HeldBuffer& /*use*/) noexcept {}
  // Buffers in use above kMarkedAbove: the largest ones, at most `most` of them, largest first; and
  // the number and bytes of all. Any thread, while others allocate; takes time proportional to the
  // blocks.
  struct Held {
    std::vector<HeldBuffer> largest;
    int64_t count = 0, bytes = 0;  // of all of them
  };
  virtual Held held(size_t /*most*/) const { return {}; }
  // Sets stats().peak_bytes to the bytes in use.
  virtual void reset_peak() noexcept {}
  // The most bytes in use since the previous call; stats().peak_bytes is unaffected. For a single
  // caller, which draws a curve over time.
  virtual int64_t take_peak() noexcept { return stats().used_bytes; }
  // Requires: shape is known. Throws: as allocate(); Error(invalid_argument) past 2^59 elements.
  Tensor make(DType dtype, const Shape& shape) {
    return adopt(allocate(shape.size() * size_of(dtype)), dtype, shape);
  }

 protected:
  ~Memory() = default;
};

}  // namespace troupe
