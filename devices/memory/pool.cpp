// The allocator of PoolMemory and PoolCache.
//
// Large blocks are pieces of a heap (devices/memory/pool_heap.hpp), which lists those in use; their
// purpose is stored in the line of their header. Any other block is with the system, in the free
// list of its class, on a thread's shelf, or in a live buffer. Each list has a lock, held for a few
// instructions; the two sums are atomic, so that the budget holds under concurrent calls. Blocks on
// a shelf count as used internally, but not in statistics.
#include "devices/memory/pool.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

#include "devices/memory/pool_heap.hpp"
#include "devices/memory/pool_shelves.hpp"
#include "graph/base/buffer.hpp"

namespace troupe {
namespace {

constexpr int64_t kSlabBytes = 4096;  // blocks of class 0 come by the page
constexpr int64_t kSlabBlocks = kSlabBytes / size_class::kLine;

Buffer*& next(Buffer* buffer) { return next_in_list(buffer); }

// The beginning of the block of a buffer. Requires: not of class 0.
void* block_of(Buffer* buffer) { return reinterpret_cast<char*>(buffer + 1) - size_class::kLine; }

using Piece = PoolHeap::Piece;  // a large block
constexpr int kLargeFrom = size_class::of(Memory::kMarkedAbove) + 1;
// From this class on blocks have a heap of their own. Few blocks that stay between steps, such as
// parameters, are as large as the values that a step passes on; smaller ones would lie in the
// middle of the space that the large ones leave to each other.
constexpr int kHugeFrom = size_class::of(int64_t{1} << 20);
static_assert(Memory::kMarkedAbove >= PoolCache::kBytesMax);  // blocks in a cache look used

bool is_large(const Buffer* buffer) { return static_cast<int>(buffer->tag) >= kLargeFrom; }
Piece* piece_of(Buffer* buffer) { return static_cast<Piece*>(block_of(buffer)); }
int64_t block_bytes(Buffer* buffer) {
  return is_large(buffer) ? piece_of(buffer)->size
                          : size_class::block_bytes(static_cast<int>(buffer->tag));
}

}  // namespace

Error out_of_memory(const std::string& device, int64_t bytes, const MemoryStats& now) {
  return Error(Errc::out_of_memory, "device ", device, " has no room for a tensor of ", bytes,
               " bytes: of its memory budget of ", now.budget_bytes, " bytes ", now.used_bytes,
               " are in use and ", now.reserved_bytes,
               " reserved; use smaller batches, compute values again instead of keeping them "
               "(troupe/graph.hpp), place some nodes on another device, or raise the budget "
               "(ProcessOptions::memory_budget_bytes)");
}

namespace {

enum class Lack : uint8_t { budget, memory, addresses };  // why there is no block

// Error for a request within the budget when the system has no more.
Error out_of_system(const std::string& device, int64_t bytes, const MemoryStats& now, Lack lack) {
  return Error(
      Errc::out_of_memory, "device ", device, " has no room for a tensor of ", bytes,
      " bytes: of its memory budget of ", now.budget_bytes, " bytes only ", now.used_bytes,
      " are in use and ", now.reserved_bytes, " reserved, but ",
      lack == Lack::addresses
          ? "the address space of this process is used up, of which each device reserves a few "
            "times its budget; have fewer sessions and devices in one process, give them smaller "
            "budgets (ProcessOptions::memory_budget_bytes), or raise the limit (ulimit -v)"
          : "the system gives this process no more; give devices budgets that fit into the "
            "machine together (ProcessOptions::memory_budget_bytes), or raise the limits (ulimit "
            "-v, the memory of a container)");
}

}  // namespace

// The owner of the buffers. It lives until the pool is gone and every buffer has come back.
class PoolMemory::Core final : public BufferOwner {
 public:
  Core(std::string device, int64_t budget_bytes)
      : device(std::move(device)),
        budget(budget_bytes),
        heaps_{PoolHeap(budget_bytes), PoolHeap(budget_bytes)} {}
  Core(const Core&) = delete;
  ~Core() {
    trim_to(kNothing);
    for (Slab slab : slabs_) std::free(slab.begin);
  }

  // Null if there is no block; `lack` then says why.
  Buffer* allocate(int64_t bytes, Lack& lack) {
    lack = Lack::budget;
    if (bytes < 0 || bytes > size_class::kBytesMax) return nullptr;
    const int c = size_class::of(bytes);
    if (c >= kLargeFrom) return new_piece(bytes, c, lack);
    Buffer* buffer = c < PoolShelves::kClasses ? shelves_.take(c) : nullptr;
    if (!buffer) {
      buffer = pop(c);
      if (!buffer && c < PoolShelves::kClasses) buffer = take_from_others(c);
      if (!buffer) buffer = c == 0 ? new_slab(lack) : new_block(c, lack);
      if (!buffer) return nullptr;
      used_.fetch_add(size_class::block_bytes(c), std::memory_order_relaxed);
    }
    note_peak();
    buffer->refs.store(1, std::memory_order_relaxed);
    return buffer;
  }

  void release(Buffer* buffer) noexcept override {
    if (buffer->tag >= PoolShelves::kClasses || !shelves_.put(buffer)) give_back(buffer);
  }

  void orphan() noexcept {
    orphaned_.store(true, std::memory_order_relaxed);
    clear_shelves(/*for_good=*/true);
    trim_to(kNothing);
    give_up(kPoolAlive);
  }

  // Frees blocks until at most `reserved_max` bytes are reserved. Returns false if more are
  // reserved and nothing was freed.
  static constexpr int64_t kNothing = -1;  // negative, so that all free blocks go
  bool trim_to(int64_t reserved_max) noexcept {
    std::lock_guard guard(trim_mutex_);
    clear_shelves(/*for_good=*/false);
    bool found = false;
    if (const int64_t over = reserved_.load(std::memory_order_relaxed) - reserved_max; over > 0) {
      int64_t given = heaps_[1].give_back(over);
      if (given < over) given += heaps_[0].give_back(over - given);
      reserved_.fetch_sub(given, std::memory_order_relaxed);
      found = given > 0;
    }
    for (int c = kLargeFrom - 1; c > 0; --c)
      while (reserved_.load(std::memory_order_relaxed) > reserved_max) {
        Buffer* buffer = pop(c);
        if (!buffer) break;
        std::free(block_of(buffer));
        reserved_.fetch_sub(size_class::block_bytes(c), std::memory_order_relaxed);
        found = true;
      }
    return reserved_.load(std::memory_order_relaxed) <= reserved_max || trim_slabs() || found;
  }

  MemoryStats stats() const {
    return {.used_bytes = in_use() / size_class::kLine * size_class::kLine,
            .reserved_bytes = reserved_.load(std::memory_order_relaxed),
            .peak_bytes = std::max(peak_.load(std::memory_order_relaxed),
                                   earlier_peak_.load(std::memory_order_relaxed)) /
                          size_class::kLine * size_class::kLine,
            .budget_bytes = budget,
            .system_allocations = system_allocations_.load(std::memory_order_relaxed)};
  }

  void mark(Buffer* buffer, const HeldBuffer& use) noexcept {
    if (buffer->owner != this || !is_large(buffer)) return;
    Piece& piece = *piece_of(buffer);
    piece.label.store(use.label, std::memory_order_relaxed);
    piece.run.store(use.run, std::memory_order_relaxed);
    piece.bytes.store(use.bytes, std::memory_order_relaxed);
  }

  Memory::Held held(size_t most) const {
    Memory::Held out;
    for (const PoolHeap& heap : heaps_)
      heap.for_each_used([&](const Piece& piece) {
        const int64_t bytes = piece.bytes.load(std::memory_order_relaxed);
        ++out.count;
        out.bytes += bytes;
        out.largest.push_back({bytes, piece.label.load(std::memory_order_relaxed),
                               piece.run.load(std::memory_order_relaxed)});
      });
    std::stable_sort(out.largest.begin(), out.largest.end(),
                     [](const HeldBuffer& a, const HeldBuffer& b) { return a.bytes > b.bytes; });
    if (out.largest.size() > most) out.largest.resize(most);
    return out;
  }

  void reset_peak() noexcept {
    earlier_peak_.store(0, std::memory_order_relaxed);
    peak_.store(in_use(), std::memory_order_relaxed);
  }
  // Allocations raise only peak_; earlier_peak_ keeps the peak before.
  int64_t take_peak() noexcept {
    const int64_t peak = peak_.exchange(in_use(), std::memory_order_relaxed);
    raise(earlier_peak_, peak);
    return peak / size_class::kLine * size_class::kLine;
  }

  bool claim(int64_t bytes) {
    if (!reserve_budget(bytes)) return false;
    used_.fetch_add(bytes, std::memory_order_relaxed);
    note_peak();
    return true;
  }
  void end_claim(int64_t bytes) noexcept {
    reserved_.fetch_sub(bytes, std::memory_order_relaxed);
    give_up(bytes);
  }

  const std::string device;
  const int64_t budget;

 private:
  struct alignas(size_class::kLine) List {
    SpinLock lock;
    Buffer* head = nullptr;
  };
  struct Slab {
    char* begin;
    int64_t free_blocks = 0;  // only while trimming
  };
  // A flag in `used_`, whose other values are multiples of kLine: the pool exists. At 0 the core is
  // deleted.
  static constexpr int64_t kPoolAlive = 1;
  // How often a request makes room before it is refused, if other requests take that room each
  // time.
  static constexpr int kAttempts = 100;

  static void raise(std::atomic<int64_t>& most, int64_t now) noexcept {
    int64_t old = most.load(std::memory_order_relaxed);
    while (now > old && !most.compare_exchange_weak(old, now, std::memory_order_relaxed)) {
    }
  }

  void give_up(int64_t bytes) noexcept {
    if (used_.fetch_sub(bytes, std::memory_order_acq_rel) == bytes) delete this;
  }

  void give_back(Buffer* buffer) noexcept {
    const int64_t bytes = block_bytes(buffer);
    const bool orphaned = orphaned_.load(std::memory_order_relaxed);
    if (is_large(buffer)) {
      PoolHeap& heap = heap_for(static_cast<int>(buffer->tag));
      heap.give(piece_of(buffer));
      returned_.fetch_add(1, std::memory_order_relaxed);
      if (orphaned) heap.give_back(size_class::kBytesMax);
    } else if (buffer->tag > 0 && orphaned) {
      std::free(block_of(buffer));
    } else {
      push(buffer);
    }
    give_up(bytes);
  }

  // Used before memory is requested from the system. The block returned is no longer counted as
  // used.
  Buffer* take_from_others(int c) noexcept {
    Buffer* buffer = shelves_.take_from_others(c);
    if (buffer) used_.fetch_sub(size_class::block_bytes(c), std::memory_order_relaxed);
    return buffer;
  }

  void clear_shelves(bool for_good) noexcept {
    shelves_.clear(for_good, [this](Buffer* buffer) { give_back(buffer); });
  }

  int64_t in_use() const {
    return std::max<int64_t>(used_.load(std::memory_order_relaxed) - shelves_.bytes(), 0);
  }

  // `used_` is at least the bytes in use, so comparing it is usually enough.
  void note_peak() noexcept {
    if (used_.load(std::memory_order_relaxed) > peak_.load(std::memory_order_relaxed))
      raise(peak_, in_use());
  }

  void push(Buffer* buffer) noexcept {
    List& list = lists_[buffer->tag];
    list.lock.lock();
    next(buffer) = list.head;
    list.head = buffer;
    list.lock.unlock();
  }

  Buffer* pop(int c) noexcept {
    List& list = lists_[static_cast<size_t>(c)];
    list.lock.lock();
    Buffer* buffer = list.head;
    if (buffer) list.head = next(buffer);
    list.lock.unlock();
    return buffer;
  }

  PoolHeap& heap_for(int c) { return heaps_[c >= kHugeFrom ? 1 : 0]; }

  Buffer* new_piece(int64_t bytes, int c, Lack& lack) {
    Piece* piece = nullptr;
    for (int attempt = 0; !piece; ++attempt) {
      const uint64_t returned = returned_.load(std::memory_order_relaxed);
      int64_t missing = 0;
      piece = heap_for(c).take(
          bytes, missing, [this](int64_t more) { return try_reserve(more); },
          [this](int64_t more) { reserved_.fetch_sub(more, std::memory_order_relaxed); });
      if (piece) break;
      lack = missing > 0                     ? Lack::budget
             : heap_for(c).lacks_addresses() ? Lack::addresses
                                             : Lack::memory;
      if (attempt == kAttempts || missing > budget) return nullptr;
      // The trim may free just the piece that was to grow, so from the second attempt on it makes
      // room for the whole block. If the system has no more, all free memory is given back, so that
      // it can be joined.
      const int64_t all = std::min(budget, bytes + PoolHeap::kMoreThanAsked);
      const int64_t room = attempt == 0 ? missing : std::max(missing, all);
      if (!trim_to(missing == 0 ? kNothing : budget - room) &&
          (missing == 0 || reserved_.load(std::memory_order_relaxed) > budget - missing) &&
          returned == returned_.load(std::memory_order_relaxed))
        return nullptr;
    }
    used_.fetch_add(piece->size, std::memory_order_relaxed);
    note_peak();
    piece->label.store(0, std::memory_order_relaxed);
    piece->run.store(-1, std::memory_order_relaxed);
    piece->bytes.store(bytes, std::memory_order_relaxed);
    char* const elements = reinterpret_cast<char*>(piece) + size_class::kLine;
    return new (elements - sizeof(Buffer)) Buffer{{1}, static_cast<uint32_t>(c), this};
  }

  bool try_reserve(int64_t bytes) {
    int64_t old = reserved_.load(std::memory_order_relaxed);
    do {
      if (old > budget - bytes) return false;
    } while (!reserved_.compare_exchange_weak(old, old + bytes, std::memory_order_relaxed));
    system_allocations_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  // Takes bytes of the budget, and makes room for them.
  bool reserve_budget(int64_t bytes) {
    for (int attempt = 0; !try_reserve(bytes); ++attempt) {
      const uint64_t returned = returned_.load(std::memory_order_relaxed);
      if (attempt == kAttempts || bytes > budget ||
          (!trim_to(budget - bytes) && returned == returned_.load(std::memory_order_relaxed)))
        return false;
    }
    return true;
  }

  // Memory from the system within the budget; nullptr if there is none.
  char* reserve(int64_t bytes, int64_t alignment, Lack& lack) {
    if (!reserve_budget(bytes)) return nullptr;
    auto* block = static_cast<char*>(
        std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(bytes)));
    if (!block) {
      lack = Lack::memory;
      reserved_.fetch_sub(bytes, std::memory_order_relaxed);
    }
    return block;
  }

  Buffer* new_block(int c, Lack& lack) {
    char* block = reserve(size_class::block_bytes(c), size_class::kLine, lack);
    if (!block) return nullptr;
    return new (block + size_class::kLine - sizeof(Buffer))
        Buffer{{1}, static_cast<uint32_t>(c), this};
  }

  Buffer* new_slab(Lack& lack) {
    char* slab = reserve(kSlabBytes, kSlabBytes, lack);
    if (!slab) return nullptr;
    try {
      std::lock_guard guard(slab_mutex_);
      slabs_.push_back({slab});
    } catch (const std::bad_alloc&) {
      lack = Lack::memory;
      std::free(slab);
      reserved_.fetch_sub(kSlabBytes, std::memory_order_relaxed);
      return nullptr;
    }
    Buffer* first = nullptr;
    for (int64_t i = kSlabBlocks; i-- > 0;) {  // so that the list is in ascending address order
      auto* buffer = new (slab + i * size_class::kLine) Buffer{{1}, 0, this};
      next(buffer) = first;
      first = buffer;
    }
    Buffer* rest = next(first);
    List& list = lists_[0];
    Buffer* last = reinterpret_cast<Buffer*>(slab + (kSlabBlocks - 1) * size_class::kLine);
    list.lock.lock();
    next(last) = list.head;
    list.head = rest;
    list.lock.unlock();
    return first;
  }

  // Frees the slabs whose blocks are all free. Allocates nothing.
  bool trim_slabs() noexcept {
    std::lock_guard guard(slab_mutex_);
    lists_[0].lock.lock();
    Buffer* head = std::exchange(lists_[0].head, nullptr);
    lists_[0].lock.unlock();
    // One pass counts the free blocks of each slab; the next one keeps those of the slabs that
    // stay.
    std::sort(slabs_.begin(), slabs_.end(), [](Slab a, Slab b) { return a.begin < b.begin; });
    const auto slab_of = [&](Buffer* buffer) -> Slab& {
      auto* address = reinterpret_cast<char*>(buffer);
      return *(std::upper_bound(slabs_.begin(), slabs_.end(), address,
                                [](char* at, Slab slab) { return at < slab.begin; }) -
               1);
    };
    for (Slab& slab : slabs_) slab.free_blocks = 0;
    for (Buffer* b = head; b; b = next(b)) ++slab_of(b).free_blocks;
    while (head) {
      Buffer* b = std::exchange(head, next(head));
      if (slab_of(b).free_blocks < kSlabBlocks) push(b);
    }
    const size_t count = std::erase_if(slabs_, [](Slab slab) {
      if (slab.free_blocks == kSlabBlocks) std::free(slab.begin);
      return slab.free_blocks == kSlabBlocks;
    });
    reserved_.fetch_sub(static_cast<int64_t>(count) * kSlabBytes, std::memory_order_relaxed);
    return count > 0;
  }

  std::array<List, kLargeFrom> lists_;
  PoolShelves shelves_;
  alignas(size_class::kLine) std::atomic<int64_t> used_{kPoolAlive};
  std::atomic<int64_t> peak_{0};          // since take_peak()
  std::atomic<int64_t> earlier_peak_{0};  // before the last take_peak()
  alignas(size_class::kLine) std::atomic<int64_t> reserved_{0};
  std::atomic<int64_t> system_allocations_{0};
  // The number of large blocks returned. A request that found nothing to free tries again if the
  // number has changed, as the block may be where it had already looked.
  std::atomic<uint64_t> returned_{0};
  std::atomic<bool> orphaned_{false};
  PoolHeap heaps_[2];  // of large blocks, and of huge ones
  // Held while trimming; taken before all other locks. So memory that one thread has freed is no
  // longer counted as reserved when the next thread looks.
  std::mutex trim_mutex_;
  std::mutex slab_mutex_;  // taken before the lock of list 0; guards the next
  std::vector<Slab> slabs_;
};

PoolMemory::PoolMemory(std::string device, int64_t budget_bytes)
    : core_(new Core(std::move(device), std::max<int64_t>(budget_bytes, 0))) {}

PoolMemory::~PoolMemory() { core_->orphan(); }

Buffer* PoolMemory::allocate(int64_t bytes) {
  Lack lack = Lack::budget;
  if (Buffer* buffer = core_->allocate(bytes, lack)) return buffer;
  if (lack == Lack::budget && ends_claims())
    if (Buffer* buffer = core_->allocate(bytes, lack)) return buffer;
  if (lack == Lack::budget) throw out_of_memory(core_->device, bytes, stats());
  throw out_of_system(core_->device, bytes, stats(), lack);
}

Buffer* PoolMemory::try_allocate(int64_t bytes) {
  Lack lack = Lack::budget;
  Buffer* const buffer = core_->allocate(bytes, lack);
  return buffer || lack != Lack::budget || !ends_claims() ? buffer : core_->allocate(bytes, lack);
}

PoolMemory::Claim::~Claim() { core_.end_claim(bytes_); }

std::unique_ptr<PoolMemory::Claim> PoolMemory::claim(int64_t bytes) {
  if (!core_->claim(bytes) && !(ends_claims() && core_->claim(bytes))) return nullptr;
  return std::make_unique<Claim>(*core_, bytes);
}

void PoolMemory::set_spare(std::function<bool()> end_claims) {
  std::lock_guard lock(mutex_);
  spare_ = std::move(end_claims);
}

bool PoolMemory::ends_claims() {
  std::unique_lock lock(mutex_);
  const std::function<bool()> spare = spare_;
  lock.unlock();
  return spare && spare();
}

void PoolMemory::release(Buffer* buffer) noexcept { core_->release(buffer); }

BufferOwner* PoolMemory::owner() const { return core_; }

void PoolMemory::mark(Buffer* buffer, const HeldBuffer& use) noexcept { core_->mark(buffer, use); }

Memory::Held PoolMemory::held(size_t most) const { return core_->held(most); }

void PoolMemory::reset_peak() noexcept { core_->reset_peak(); }

int64_t PoolMemory::take_peak() noexcept { return core_->take_peak(); }

void PoolMemory::trim() { core_->trim_to(Core::kNothing); }

MemoryStats PoolMemory::stats() const {
  MemoryStats stats = core_->stats();
  std::lock_guard guard(mutex_);
  for (const auto* cached : cached_bytes_)
    stats.used_bytes -= cached->load(std::memory_order_relaxed);
  return stats;
}

void PoolMemory::count_cache(const std::atomic<int64_t>& bytes) {
  std::lock_guard guard(mutex_);
  cached_bytes_.push_back(&bytes);
}

void PoolMemory::forget_cache(const std::atomic<int64_t>& bytes) noexcept {
  std::lock_guard guard(mutex_);
  // Search from the end: of nested calls, the one that begins last ends first.
  const auto at = std::find(cached_bytes_.rbegin(), cached_bytes_.rend(), &bytes);
  *at = cached_bytes_.back();
  cached_bytes_.pop_back();
}

PoolCache::PoolCache(PoolMemory& pool) : pool_(pool), owner_(pool.owner()) {
  pool_.count_cache(cached_bytes_);
}

PoolCache::~PoolCache() {
  flush();
  pool_.forget_cache(cached_bytes_);
}

void PoolCache::flush() noexcept {
  for (Buffer*& head : free_)
    while (head) {
      Buffer* buffer = std::exchange(head, next(head));
      count(-size_class::block_bytes(static_cast<int>(buffer->tag)));
      owner_->release(buffer);
    }
}

Buffer* PoolCache::allocate_from_pool(int64_t bytes) {
  if (Buffer* buffer = pool_.try_allocate(bytes)) return buffer;
  flush();  // the cached blocks may be just what is missing
  return pool_.allocate(bytes);
}

}  // namespace troupe
