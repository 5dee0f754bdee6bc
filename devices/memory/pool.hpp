// PoolMemory: the memory of a device on the host. Blocks of up to 64 KiB come from the system once
// and then circulate in free lists, one per size class; larger ones are cut from ranges of
// addresses and joined again (devices/memory/pool_heap.hpp). PoolCache: a few of the small blocks
// for one thread, without a lock.
//
// A buffer may outlive its pool: the free lists are freed with the pool, the rest with the last
// buffer.
// Owner: of a PoolMemory the device, of a PoolCache an activation. Thread: any for a PoolMemory;
// one at a time for a PoolCache.
#pragma once

#include <atomic>
#include <bit>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "devices/memory/memory.hpp"
#include "graph/base/buffer.hpp"

namespace troupe {

// Sizes of blocks. Class 0 is one line of 64 bytes: a header and up to 48 bytes. Class c > 0 has a
// line that ends in the header, then 64, 128, 192, 256, 320 ... bytes: four steps per power of two,
// so at most a quarter of a block is unused.
namespace size_class {
inline constexpr int64_t kLine = 64;
inline constexpr int64_t kSmallMax = kLine - static_cast<int64_t>(sizeof(Buffer));
inline constexpr int64_t kBytesMax = int64_t{1} << 46;  // more than any machine has

// Requires: 0 <= bytes <= kBytesMax.
constexpr int of(int64_t bytes) {
  if (bytes <= kSmallMax) return 0;
  const auto lines = static_cast<uint64_t>((bytes + kLine - 1) / kLine);
  if (lines <= 4) return static_cast<int>(lines);
  const int shift = std::bit_width(lines - 1) - 3;  // keeps three bits, the first of which is 1
  return 4 * shift + static_cast<int>((lines - 1) >> shift) + 1;
}
constexpr int64_t block_bytes(int c) {  // with header
  if (c <= 4) return kLine * (c + 1);
  const int shift = (c - 1) / 4 - 1;
  return kLine + (kLine * ((c - 1) % 4 + 5) << shift);
}
inline constexpr int kCount = of(kBytesMax) + 1;
}  // namespace size_class

class PoolMemory final : public Memory {
 public:
  // Errors name `device`. reserved_bytes never exceeds `budget_bytes`.
  PoolMemory(std::string device, int64_t budget_bytes);
  ~PoolMemory();
  PoolMemory(const PoolMemory&) = delete;
  PoolMemory& operator=(const PoolMemory&) = delete;

  // Gives free blocks of other sizes back to the system before a request is refused. Throws:
  // Error(out_of_memory) naming device, request, use, budget and the remedy.
  Buffer* allocate(int64_t bytes) override;
  Buffer* try_allocate(int64_t bytes);  // the same; nullptr instead of an exception
  void release(Buffer* buffer) noexcept override;
  // All figures count whole blocks. peak_bytes counts cached blocks as used.
  MemoryStats stats() const override;
  void mark(Buffer* buffer, const HeldBuffer& use) noexcept override;
  Held held(size_t most) const override;
  void reset_peak() noexcept override;
  int64_t take_peak() noexcept override;
  void trim();  // gives free blocks back to the system

  // Bytes of the budget for memory from elsewhere, until the claim ends, which may be after the
  // pool. Makes room first. Null: there is no room.
  class Claim;
  std::unique_ptr<Claim> claim(int64_t bytes);
  // Called before a request is refused for its budget: returns true if it has ended claims.
  // Replaces the one before.
  void set_spare(std::function<bool()> end_claims);

  // The value of the `owner` field of its buffers.
  BufferOwner* owner() const;

  // Counts the bytes of a PoolCache as free while it lives: its constructor and destructor call.
  void count_cache(const std::atomic<int64_t>& bytes);
  void forget_cache(const std::atomic<int64_t>& bytes) noexcept;

 private:
  class Core;
  bool ends_claims();

  Core* const core_;
  mutable std::mutex mutex_;                               // guards the rest
  std::vector<const std::atomic<int64_t>*> cached_bytes_;  // of every PoolCache
  std::function<bool()> spare_;
};

class PoolMemory::Claim {
 public:
  Claim(Core& core, int64_t bytes) : core_(core), bytes_(bytes) {}
  Claim(const Claim&) = delete;
  ~Claim();

 private:
  Core& core_;
  const int64_t bytes_;
};

// A cache in front of a PoolMemory. One thread at a time owns it and may allocate, give, drop and
// flush. Its buffers belong to the pool, so a last handle dropped elsewhere returns the buffer to
// the pool.
class PoolCache final : public Memory {
 public:
  // With more than this many bytes in the lists, buffers go to the pool: a chain of 10,000
  // independent scalars still fits.
  static constexpr int64_t kCachedBytesMax = int64_t{1} << 20;
  // Larger buffers go directly to the pool: filling one takes longer than any lock.
  static constexpr int64_t kBytesMax = int64_t{64} << 10;

  explicit PoolCache(PoolMemory& pool);
  ~PoolCache();
  PoolCache(const PoolCache&) = delete;
  PoolCache& operator=(const PoolCache&) = delete;

  Buffer* allocate(int64_t bytes) override {
    if (static_cast<uint64_t>(bytes) <= uint64_t{kBytesMax}) [[likely]] {  // negative: no
      const int c = size_class::of(bytes);
      if (Buffer* buffer = free_[c]) [[likely]] {
        free_[c] = next(buffer);
        count(-size_class::block_bytes(c));
        buffer->refs.store(1, std::memory_order_relaxed);
        return buffer;
      }
    }
    return allocate_from_pool(bytes);
  }
  // Takes an unreferenced buffer. Requires: its owner is the pool.
  void give(Buffer* buffer) noexcept {
    const uint32_t c = buffer->tag;
    if (c < kClasses && cached_bytes() < kCachedBytesMax) [[likely]] {
      next(buffer) = free_[c];
      free_[c] = buffer;
      count(size_class::block_bytes(static_cast<int>(c)));
    } else {
      owner_->release(buffer);
    }
  }
  // tensor.reset(), but a buffer of the pool stays in this cache.
  void drop(Tensor& tensor) noexcept {
    Buffer* buffer = detach(tensor);
    if (!buffer || !troupe::drop(*buffer)) return;
    if (buffer->owner == owner_) [[likely]]
      give(buffer);
    else
      buffer->owner->release(buffer);
  }
  void flush() noexcept;  // gives everything to the pool
  int64_t cached_bytes() const { return cached_bytes_.load(std::memory_order_relaxed); }

  void release(Buffer* buffer) noexcept override { owner_->release(buffer); }  // any thread
  MemoryStats stats() const override { return pool_.stats(); }
  void mark(Buffer* buffer, const HeldBuffer& use) noexcept override { pool_.mark(buffer, use); }
  Held held(size_t most) const override { return pool_.held(most); }
  void reset_peak() noexcept override { pool_.reset_peak(); }
  int64_t take_peak() noexcept override { return pool_.take_peak(); }

 private:
  static constexpr int kClasses = size_class::of(kBytesMax) + 1;
  static Buffer*& next(Buffer* buffer) { return *reinterpret_cast<Buffer**>(buffer + 1); }
  // Only one thread writes, so no read-modify-write is needed; other threads read it for
  // statistics.
  void count(int64_t bytes) {
    cached_bytes_.store(cached_bytes() + bytes, std::memory_order_relaxed);
  }
  Buffer* allocate_from_pool(int64_t bytes);

  PoolMemory& pool_;
  BufferOwner* const owner_;
  Buffer* free_[kClasses] = {};
  std::atomic<int64_t> cached_bytes_{0};
};

}  // namespace troupe
