// The large blocks of a pool: pieces of a few long ranges of addresses. Each is cut from a free
// piece of the size class that fits best, and joined with free neighbours when it comes back. So
// memory of blocks of one size can be reused for any other size. A part of devices/memory/pool.cpp.
//
// A free piece is either resident, which counts as taken from the system, or given back, as is all
// of a range that has not been used yet. The pages at the two ends of a piece given back stay, and
// do not count. There is one lock; only for a new range does the heap allocate from the program's
// heap while it holds the lock.
// Owner: the core of a PoolMemory, which has two. Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "devices/memory/pool.hpp"

namespace troupe {

class PoolHeap {
 public:
  enum class State : uint8_t { used, resident, given_back };
  // The beginning of a piece, in the line that ends in the header of its buffer. The first three
  // fields belong to the heap and are guarded by its lock; the holder of the buffer writes the
  // others.
  struct Piece {
    Piece* lower = nullptr;  // the piece below it in its range; null: none
    int64_t size = 0;        // including this line
    State state = State::used;
    std::atomic<int64_t> bytes{0};  // 0: free, or not yet handed out
    std::atomic<uint64_t> label{0};
    std::atomic<int64_t> run{-1};
  };
  static_assert(sizeof(Piece) <= size_class::kLine - sizeof(Buffer));

  // A piece, with its line, exceeds the request by less than this.
  static constexpr int64_t kMoreThanAsked = 2 * size_class::kLine + 4096;

  explicit PoolHeap(int64_t budget_bytes) : budget_(budget_bytes) {}
  ~PoolHeap();
  PoolHeap(const PoolHeap&) = delete;

  // A piece with room for `bytes` after its line. If `missing` bytes must be taken from the system
  // for it, they are if reserve(missing) is true. Null if it is not; with missing = 0, if the
  // system has none, after the reserved bytes have been passed to unreserve(); with more missing
  // than the budget, if no piece within the budget is that large.
  template <class Reserve, class Unreserve>
  Piece* take(int64_t bytes, int64_t& missing, const Reserve& reserve, const Unreserve& unreserve) {
    const int64_t size =
        (bytes + 2 * size_class::kLine - 1) / size_class::kLine * size_class::kLine;
    missing = size;
    if (size > budget_) return nullptr;
    std::lock_guard guard(mutex_);
    missing = 0;
    if (Piece* piece = best_resident(size)) return cut(piece, size);
    Growth growth = cheapest_growth(size);
    if (!growth.into && add_range(size)) growth = cheapest_growth(size);
    if (!growth.into) return nullptr;
    missing = growth.missing;
    if (!reserve(missing)) return nullptr;
    if (make_writable(growth.into, growth.missing)) return grow(growth, size);
    unreserve(missing);
    missing = 0;
    return nullptr;
  }
  // The reason why the system has none for take(): the process has no addresses left for another
  // range.
  bool lacks_addresses() const { return lacks_addresses_.load(std::memory_order_relaxed); }
  void give(Piece* piece) noexcept;
  // Gives resident pieces back to the system, the largest first and of the last one the upper part,
  // until that amounts to `bytes`, or all. Returns the bytes given back; pages that the system
  // refuses to take, such as locked ones, are not included and stay resident.
  int64_t give_back(int64_t bytes) noexcept;

  // Calls f(piece) for each piece in use.
  template <class F>
  void for_each_used(const F& f) const {
    std::lock_guard guard(mutex_);
    for (const Range& range : ranges_)
      for (const Piece* p = piece_at(range.begin); p->size > 0; p = upper(p))
        if (p->state == State::used && p->bytes.load(std::memory_order_relaxed) > 0) f(*p);
  }

 private:
  struct Range {
    char* begin;
    int64_t size;      // the last page holds a piece of size 0, which is never free
    int64_t writable;  // from the beginning on
  };
  struct Links {  // of a free piece, after its line
    Piece* before;
    Piece* after;
  };
  // A piece that was given back, and the resident piece below it if there is one.
  struct Growth {
    Piece* into = nullptr;
    Piece* below = nullptr;
    int64_t missing = 0;
  };
  // A smaller rest stays with the piece it would be cut from.
  static constexpr int64_t kLeast = kMoreThanAsked - 2 * size_class::kLine;

  static Piece* piece_at(char* address) { return reinterpret_cast<Piece*>(address); }
  static char* address(const Piece* piece) {
    return const_cast<char*>(reinterpret_cast<const char*>(piece));
  }
  static Piece* upper(const Piece* piece) { return piece_at(address(piece) + piece->size); }
  static Links& links(Piece* piece) {
    return *reinterpret_cast<Links*>(address(piece) + size_class::kLine);
  }

  Piece*& head(const Piece* piece);
  void link(Piece* piece, State state) noexcept;
  void unlink(Piece* piece) noexcept;
  Piece* make(char* at, int64_t size, Piece* lower);
  void join_upper(Piece* piece) noexcept;
  Piece* best_resident(int64_t size);
  Growth cheapest_growth(int64_t size);
  Piece* cut(Piece* piece, int64_t size);
  int64_t give_back_of(Piece* piece, int64_t bytes) noexcept;
  Piece* grow(const Growth& growth, int64_t size);
  bool add_range(int64_t size) noexcept;
  bool make_writable(const Piece* piece, int64_t size);

  const int64_t budget_;
  std::atomic<bool> lacks_addresses_{false};
  mutable std::mutex mutex_;  // guards the rest
  std::vector<Range> ranges_;
  std::array<Piece*, size_class::kCount> resident_{};  // by size class
  Piece* given_back_ = nullptr;
};

}  // namespace troupe
