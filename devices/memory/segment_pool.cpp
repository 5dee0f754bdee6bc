// Cuts segments into blocks and keeps the free ones.
#include "devices/memory/segment_pool.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>

#include "graph/base/mutant.hpp"

namespace troupe {
namespace {

constexpr int64_t kSegmentBytes = int64_t{4} << 20;  // of the segments that hold several blocks
constexpr int64_t kBlocksMax = 64;                   // in a segment
// After a segment was refused, so many requests go to the pool before the next attempt.
constexpr int64_t kRequestsBetween = 1000;

size_t half_of_descriptors() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 0;
}

}  // namespace

class SegmentPool::Core final : public BufferOwner, public std::enable_shared_from_this<Core> {
 public:
  Buffer* allocate(int64_t bytes, PoolMemory& pool) {
    const int c = size_class::of(bytes);
    {
      std::vector<Tensor> ended;
      std::lock_guard lock(mutex_);
      if (Buffer* const buffer = pop(c)) return buffer;
      if (patience_ > 0) {
        --patience_;
        return nullptr;
      }
      sweep(ended);
      if (arenas_.size() >= segments_max_) return nullptr;
    }
    const int64_t block = size_class::block_bytes(c);
    const int64_t blocks = std::clamp(kSegmentBytes / block, int64_t{1}, kBlocksMax);
    std::shared_ptr<const Segment> segment;
    auto claim = pool.claim(blocks * block);
    if (std::string why; claim) segment = Segment::make(blocks * block, why);
    std::lock_guard lock(mutex_);
    if (!segment) {
      patience_ = kRequestsBetween;
      return nullptr;
    }
    add(std::move(segment), std::move(claim), c, blocks);
    return pop(c);
  }

  void release(Buffer* buffer) noexcept override {
    std::unique_ptr<Arena> ended;  // its end may be that of this core, so it is behind the lock
    std::lock_guard lock(mutex_);
    Arena& arena = *line_of(buffer)->arena;
    --arena.used;
    if (!arena.closed) push(buffer);
    if (arena.used == 0 && (arena.closed || orphaned_)) ended = take_out(arena);
  }

  void retire(Tensor tensor) {
    std::vector<Tensor> ended;
    std::lock_guard lock(mutex_);
    sweep(ended);
    if (orphaned_) return;  // no device writes any more
    Arena& arena = *line_of(buffer_of(tensor))->arena;
    arena.closed = true;
    drop_free_blocks(arena);
    retired_.push_back(std::move(tensor));
  }

  // Gives the segments back whose blocks are all free. Returns whether there was one.
  bool trim() {
    sweep();
    std::vector<std::unique_ptr<Arena>> ended;
    std::lock_guard lock(mutex_);
    for (size_t i = arenas_.size(); i-- > 0;)
      if (arenas_[i]->used == 0) ended.push_back(take_out(*arenas_[i]));
    return !ended.empty();
  }

  // The pool is short. So that segments do not come back at once, the next requests go to it.
  bool spare() {
    {
      std::lock_guard lock(mutex_);
      patience_ = kRequestsBetween;
    }
    return trim();
  }

  void orphan() {
    {
      std::vector<Tensor> retired;
      std::lock_guard lock(mutex_);
      orphaned_ = true;
      retired.swap(retired_);
    }
    trim();
  }

  static Place place_of(Buffer* buffer, const void* elements) {
    const Arena& arena = *line_of(buffer)->arena;
    return {arena.segment, static_cast<const char*>(elements) - arena.segment->mapping->address()};
  }

 private:
  struct Arena {
    std::shared_ptr<const Segment> segment;
    std::unique_ptr<PoolMemory::Claim> claim;
    std::shared_ptr<Core> keep;  // buffers may outlive the pool
    int size_class = 0;
    int64_t used = 0;     // blocks that are not free
    bool closed = false;  // no block of it is used again
  };
  // The line of a block that ends in the header of its buffer.
  struct Line {
    Arena* arena;
    Buffer* next;  // of the free ones
  };
  static_assert(sizeof(Line) <= size_class::kLine - sizeof(Buffer));

  static Line* line_of(Buffer* buffer) {
    return reinterpret_cast<Line*>(reinterpret_cast<char*>(buffer) + sizeof(Buffer) -
                                   size_class::kLine);
  }

  void push(Buffer* buffer) {
    Buffer*& head = free_[line_of(buffer)->arena->size_class];
    line_of(buffer)->next = std::exchange(head, buffer);
  }

  Buffer* pop(int c) {
    Buffer* const buffer = free_[c];
    if (!buffer) return nullptr;
    free_[c] = line_of(buffer)->next;
    ++line_of(buffer)->arena->used;
    buffer->refs.store(1, std::memory_order_relaxed);
    return buffer;
  }

  // Moves the retired tensors that nobody else holds to `ended`, for the end of the lock.
  void sweep(std::vector<Tensor>& ended) {
    for (Tensor& tensor : retired_)
      if (tensor.unique()) ended.push_back(std::move(tensor));
    std::erase_if(retired_, [](const Tensor& tensor) { return !tensor.defined(); });
  }
  void sweep() {
    std::vector<Tensor> ended;
    std::lock_guard lock(mutex_);
    sweep(ended);
  }

  void add(std::shared_ptr<const Segment> segment, std::unique_ptr<PoolMemory::Claim> claim, int c,
           int64_t blocks) {
    Arena* const arena = arenas_.emplace_back(std::make_unique<Arena>()).get();
    arena->segment = std::move(segment);
    arena->claim = std::move(claim);
    arena->keep = shared_from_this();
    arena->size_class = c;
    for (int64_t i = blocks; i-- > 0;) {  // so that the list is in the order of addresses
      char* const at = arena->segment->mapping->address() + i * size_class::block_bytes(c);
      new (at) Line{arena, nullptr};
      push(new (at + size_class::kLine - sizeof(Buffer))
               Buffer{{1}, static_cast<uint32_t>(c), this});
    }
  }

  void drop_free_blocks(const Arena& arena) {
    for (Buffer** at = &free_[arena.size_class]; *at;)
      if (line_of(*at)->arena == &arena)
        *at = line_of(*at)->next;
      else
        at = &line_of(*at)->next;
  }

  std::unique_ptr<Arena> take_out(Arena& arena) {
    drop_free_blocks(arena);
    const auto at = std::find_if(arenas_.begin(), arenas_.end(),
                                 [&](const auto& a) { return a.get() == &arena; });
    std::unique_ptr<Arena> out = std::move(*at);
    arenas_.erase(at);
    return out;
  }

  const size_t segments_max_ = half_of_descriptors();
  std::mutex mutex_;  // guards the rest
  std::array<Buffer*, size_class::kCount> free_{};
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<Tensor> retired_;
  int64_t patience_ = 0;
  bool orphaned_ = false;
};

SegmentPool::SegmentPool(PoolMemory& pool)
    : pool_(pool), lent_max_(pool.stats().budget_bytes / 4), core_(std::make_shared<Core>()) {
  pool_.set_spare([core = core_] { return core->spare(); });
}

SegmentPool::~SegmentPool() {
  pool_.set_spare(nullptr);
  core_->orphan();
}

Buffer* SegmentPool::try_allocate(int64_t bytes) {
  if (bytes <= kLeast || bytes > size_class::kBytesMax) return nullptr;
  return core_->allocate(bytes, pool_);
}

Buffer* SegmentPool::allocate(int64_t bytes) {
  Buffer* const buffer = has_readers() ? try_allocate(bytes) : nullptr;
  return buffer ? buffer : pool_.allocate(bytes);
}

bool SegmentPool::begin_loan(int64_t bytes) {
  if (lent_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= lent_max_) return true;
  end_loan(bytes);
  return false;
}

void SegmentPool::trim() { core_->trim(); }

void SegmentPool::release(Buffer* buffer) noexcept { buffer->owner->release(buffer); }

const BufferOwner* SegmentPool::owner() const { return core_.get(); }

SegmentPool::Place SegmentPool::place_of(const Tensor& tensor) {
  Buffer* const buffer = buffer_of(tensor);
  if (!buffer || !dynamic_cast<Core*>(buffer->owner)) return {};
  return Core::place_of(buffer, tensor.raw());
}

void SegmentPool::retire(Tensor tensor) {
  Buffer* const buffer = buffer_of(tensor);
  if (!buffer || mutant(Mutant::segment_used_again)) return;
  if (auto* const core = dynamic_cast<Core*>(buffer->owner)) core->retire(std::move(tensor));
}

}  // namespace troupe
