// The buffers that threads returned to a pool last, for reuse by the same threads: so threads that
// pass a few numbers on with each run, such as the value of a loss, share no written cache line. A
// part of devices/memory/pool.cpp.
// Owner: the core of a PoolMemory. Thread: any.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <utility>

#include "devices/memory/pool.hpp"
#include "devices/threads/thread_index.hpp"

namespace troupe {

class SpinLock {
 public:
  void lock() {
    for (int i = 0; taken_.exchange(true, std::memory_order_acquire); ++i) {
      while (taken_.load(std::memory_order_relaxed) && i < kSpins) {
        __builtin_ia32_pause();
        ++i;
      }
      if (i >= kSpins) sched_yield();
    }
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 100;  // after that the holder is likely not running: yield to it
  std::atomic<bool> taken_{false};
};

// The next buffer in the list of an unreferenced buffer.
inline Buffer*& next_in_list(Buffer* buffer) { return *reinterpret_cast<Buffer**>(buffer + 1); }

// A shelf for each thread index.
class PoolShelves {
 public:
  static constexpr int kClasses = 5;  // the smallest

  // A buffer of that class from the caller's shelf; null if there is none.
  Buffer* take(int c) noexcept { return take(here(), c); }
  // The same from any thread's shelf.
  Buffer* take_from_others(int c) noexcept {
    for (int s = 0; s < used_.load(std::memory_order_relaxed); ++s)
      if (Buffer* buffer = take(shelves_[static_cast<size_t>(s)], c)) return buffer;
    return nullptr;
  }

  // False if the caller's shelf has no room for the buffer, or is closed.
  bool put(Buffer* buffer) noexcept {
    Shelf& shelf = here();
    const int64_t bytes = size_class::block_bytes(static_cast<int>(buffer->tag));
    shelf.lock.lock();
    const int64_t now = shelf.bytes.load(std::memory_order_relaxed) + bytes;
    const bool fits = now <= kBytesMax && !shelf.closed;
    if (fits) {
      next_in_list(buffer) = shelf.heads[buffer->tag];
      shelf.heads[buffer->tag] = buffer;
      shelf.bytes.store(now, std::memory_order_relaxed);
    }
    shelf.lock.unlock();
    return fits;
  }

  // Passes each buffer on the shelves to give(). `for_good`: closes the shelves.
  template <class Give>
  void clear(bool for_good, const Give& give) noexcept {
    for (Shelf& shelf : shelves_) {
      Buffer* heads[kClasses];
      shelf.lock.lock();
      for (int c = 0; c < kClasses; ++c) heads[c] = std::exchange(shelf.heads[c], nullptr);
      shelf.bytes.store(0, std::memory_order_relaxed);
      shelf.closed |= for_good;
      shelf.lock.unlock();
      for (Buffer* head : heads)
        while (head) give(std::exchange(head, next_in_list(head)));
    }
  }

  int64_t bytes() const {
    int64_t sum = 0;
    for (int s = 0; s < used_.load(std::memory_order_relaxed); ++s)
      sum += shelves_[static_cast<size_t>(s)].bytes.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  static constexpr int64_t kBytesMax = 4096;  // on each shelf
  struct alignas(size_class::kLine) Shelf {
    SpinLock lock;
    bool closed = false;  // the pool is gone
    Buffer* heads[kClasses] = {};
    std::atomic<int64_t> bytes{0};  // written with the lock
  };

  Shelf& here() noexcept {
    const int slot = thread_index();
    int seen = used_.load(std::memory_order_relaxed);
    while (slot >= seen &&
           !used_.compare_exchange_weak(seen, slot + 1, std::memory_order_relaxed)) {
    }
    return shelves_[static_cast<size_t>(slot)];
  }

  static Buffer* take(Shelf& shelf, int c) noexcept {
    if (shelf.bytes.load(std::memory_order_relaxed) == 0) return nullptr;
    shelf.lock.lock();
    Buffer* const buffer = shelf.heads[c];
    if (buffer) {
      shelf.heads[c] = next_in_list(buffer);
      shelf.bytes.store(shelf.bytes.load(std::memory_order_relaxed) - size_class::block_bytes(c),
                        std::memory_order_relaxed);
    }
    shelf.lock.unlock();
    return buffer;
  }

  std::array<Shelf, kThreadIndices> shelves_;
  std::atomic<int> used_{0};  // only shelves below this index have been used
};

}  // namespace troupe
