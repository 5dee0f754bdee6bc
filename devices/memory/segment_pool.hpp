// SegmentPool: memory of a host device that other processes of the machine can read. Its blocks lie
// in segments and circulate in free lists, one per size class. While no process reads segments, and
// for small blocks, it passes on to the device's pool, as it does if the system has no segments.
//
// Statistics count a segment as a whole, and held() does not list its blocks. Segments take at most
// half of the descriptors that the process may have.
//
// A buffer may outlive its pool.
// Owner: the device. Thread: any.
#pragma once

#include <memory>
#include <string>

#include "devices/memory/pool.hpp"
#include "devices/memory/segment.hpp"

namespace troupe {

class SegmentPool final : public Memory {
 public:
  // Smaller blocks travel faster as bytes.
  static constexpr int64_t kLeast = int64_t{16} << 10;

  // Segments count in the budget of `pool`, which gets the free ones back when it is short.
  explicit SegmentPool(PoolMemory& pool);
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  // In a segment if there are readers and the block is above kLeast, otherwise of the pool. Throws:
  // as PoolMemory::allocate().
  Buffer* allocate(int64_t bytes) override;
  void release(Buffer* buffer) noexcept override;
  MemoryStats stats() const override { return pool_.stats(); }
  void mark(Buffer* buffer, const HeldBuffer& use) noexcept override { pool_.mark(buffer, use); }
  Held held(size_t most) const override { return pool_.held(most); }

  // A block in a segment, or null: there is no room for it.
  Buffer* try_allocate(int64_t bytes);
  // Links to processes that read segments.
  void add_reader() { readers_.fetch_add(1, std::memory_order_relaxed); }
  void remove_reader() { readers_.fetch_sub(1, std::memory_order_relaxed); }
  bool has_readers() const { return readers_.load(std::memory_order_relaxed) > 0; }
  // Counts bytes that are lent to other processes, until end_loan(). Returns false, and counts
  // nothing, past a quarter of the budget: readers may keep tensors for long.
  bool begin_loan(int64_t bytes);
  void end_loan(int64_t bytes) { lent_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Gives segments back whose blocks are all free.
  void trim();
  // The value of the `owner` field of its buffers.
  const BufferOwner* owner() const;

  // The segment that holds a tensor, and the tensor's place in it; null segment: none does.
  struct Place {
    std::shared_ptr<const Segment> segment;
    int64_t offset = 0;
  };
  static Place place_of(const Tensor& tensor);
  // Takes a tensor in a segment that a process which nothing is known of may still read: keeps it
  // until nobody else does, so that nobody writes to it, and no block of its segment is used again.
  static void retire(Tensor tensor);

 private:
  class Core;
  PoolMemory& pool_;
  const int64_t lent_max_;
  std::atomic<int64_t> readers_{0}, lent_bytes_{0};
  const std::shared_ptr<Core> core_;
};

}  // namespace troupe
