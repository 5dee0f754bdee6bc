// The pieces of PoolHeap. A range is mapped without access rights, which costs no memory, and
// becomes writable from its beginning on as it is used. A piece finds its upper neighbour by its
// size and its lower one by a pointer; free pieces are listed by size class.
#include "devices/memory/pool_heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <tuple>

namespace troupe {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kWritableStep = int64_t{2} << 20;
// Ranges are a few times as large as the budget, so that there is room around pieces in use.
constexpr int64_t kRangeOfBudget = 4;
constexpr int64_t kRangeMin = int64_t{64} << 20, kRangeMax = int64_t{1} << 40;

int64_t up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

int64_t down(int64_t bytes, int64_t unit) { return bytes / unit * unit; }
int64_t number(const char* address) { return reinterpret_cast<int64_t>(address); }

// The pages that lie completely in [begin, end).
struct Pages {
  char* from;
  int64_t bytes;
};
Pages pages_in(char* begin, const char* end) {
  const int64_t from = up(number(begin), kPage);
  return {begin + (from - number(begin)), std::max<int64_t>(down(number(end), kPage) - from, 0)};
}

// Gives the pages back to the system; they read as zeros when used again. False: not all were
// accepted.
bool give_pages_back(const Pages& pages) {
  return pages.bytes == 0 ||
         madvise(pages.from, static_cast<size_t>(pages.bytes), MADV_DONTNEED) == 0;
}

// The bytes of addresses that the process may still map under its RLIMIT_AS.
int64_t addresses_left() {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(kNoLimit))
    return kNoLimit;
  char text[64] = {};
  if (const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC); file >= 0) {
    if (read(file, text, sizeof(text) - 1) < 0) text[0] = 0;
    close(file);
  }
  const int64_t mapped = std::strtoll(text, nullptr, 10) * sysconf(_SC_PAGESIZE);
  return std::max<int64_t>(static_cast<int64_t>(limit.rlim_cur) - mapped, 0);
}

}  // namespace

PoolHeap::~PoolHeap() {
  for (const Range& range : ranges_) munmap(range.begin, static_cast<size_t>(range.size));
}

// The list of a free piece.
PoolHeap::Piece*& PoolHeap::head(const Piece* piece) {
  return piece->state == State::given_back
             ? given_back_
             : resident_[static_cast<size_t>(size_class::of(piece->size))];
}

void PoolHeap::link(Piece* piece, State state) noexcept {
  piece->state = state;
  Piece*& first = head(piece);
  links(piece) = {nullptr, first};
  if (first) links(first).before = piece;
  first = piece;
}

void PoolHeap::unlink(Piece* piece) noexcept {
  const Links at = links(piece);
  (at.before ? links(at.before).after : head(piece)) = at.after;
  if (at.after) links(at.after).before = at.before;
}

PoolHeap::Piece* PoolHeap::make(char* at, int64_t size, Piece* lower) {
  Piece* piece = new (at) Piece;
  piece->lower = lower;
  piece->size = size;
  upper(piece)->lower = piece;
  return piece;
}

// Makes the piece above a part of `piece`. Requires: it is in no list.
void PoolHeap::join_upper(Piece* piece) noexcept {
  piece->size += upper(piece)->size;
  upper(piece)->lower = piece;
}

// The lowest piece of the first size class that has one: so free memory tends to be at the end.
PoolHeap::Piece* PoolHeap::best_resident(int64_t size) {
  Piece* best = nullptr;
  for (auto c = static_cast<size_t>(size_class::of(size)); c < resident_.size() && !best; ++c)
    for (Piece* p = resident_[c]; p; p = links(p).after)
      if (p->size >= size && (!best || p < best)) best = p;
  if (best) unlink(best);
  return best;
}

// Cuts off the rest above `size`. Requires: the piece is resident, and in no list.
PoolHeap::Piece* PoolHeap::cut(Piece* piece, int64_t size) {
  if (const int64_t rest = piece->size - size; rest >= kLeast) {
    piece->size = size;
    link(make(address(piece) + size, rest, piece), State::resident);
  }
  piece->state = State::used;
  return piece;
}

PoolHeap::Growth PoolHeap::cheapest_growth(int64_t size) {
  Growth best;
  for (Piece* into = given_back_; into; into = links(into).after) {
    Piece* below = into->lower && into->lower->state == State::resident ? into->lower : nullptr;
    const int64_t missing = size - (below ? below->size : 0);
    if (into->size < missing) continue;
    const Growth growth{into, below, into->size - missing < kLeast ? into->size : missing};
    const auto cost = [](const Growth& g) { return std::tuple(g.missing, g.into->size, g.into); };
    if (!best.into || cost(growth) < cost(best)) best = growth;
  }
  return best;
}

PoolHeap::Piece* PoolHeap::grow(const Growth& growth, int64_t size) {
  Piece* piece = growth.into;
  unlink(piece);
  if (const int64_t rest = piece->size - growth.missing; rest > 0) {
    piece->size = growth.missing;
    link(make(address(piece) + growth.missing, rest, piece), State::given_back);
  }
  if (growth.below) {
    unlink(growth.below);
    join_upper(growth.below);
    piece = growth.below;
  }
  return cut(piece, size);
}

void PoolHeap::give(Piece* piece) noexcept {
  std::lock_guard guard(mutex_);
  piece->bytes.store(0, std::memory_order_relaxed);
  if (Piece* above = upper(piece); above->state == State::resident) {
    unlink(above);
    join_upper(piece);
  }
  if (Piece* below = piece->lower; below && below->state == State::resident) {
    unlink(below);
    join_upper(below);
    piece = below;
  }
  link(piece, State::resident);
}

int64_t PoolHeap::give_back(int64_t bytes) noexcept {
  std::lock_guard guard(mutex_);
  int64_t given = 0;
  for (size_t c = resident_.size(); c-- > 0;)
    for (Piece *piece = resident_[c], *next; piece && given < bytes; piece = next) {
      next = links(piece).after;
      given += give_back_of(piece, bytes - given);
    }
  return given;
}

// Gives up to `bytes` of whole pages at the upper end of a resident piece back, or the whole piece.
// Nothing if it has no whole page, nor a neighbour to share one with.
int64_t PoolHeap::give_back_of(Piece* piece, int64_t bytes) noexcept {
  char* at = address(piece);
  char* const end = address(upper(piece));
  const auto behind_links = [](char* begin) {
    return begin + size_class::kLine + static_cast<int64_t>(sizeof(Links));
  };
  // The part begins two lines before a page, so that only its links stay resident.
  static_assert(sizeof(Links) <= size_class::kLine);
  if (const int64_t kept = down(down(number(end), kPage) - std::min(bytes, end - at), kPage) -
                           2 * size_class::kLine - number(at);
      kept >= kLeast)
    at += kept;
  Piece* const above = upper(piece)->state == State::given_back ? upper(piece) : nullptr;
  Piece* const below =
      at == address(piece) && piece->lower && piece->lower->state == State::given_back
          ? piece->lower
          : nullptr;
  const Pages own = pages_in(behind_links(at), end);
  if ((own.bytes == 0 && !above && !below) || !give_pages_back(own)) return 0;

  unlink(piece);
  Piece* part = piece;
  if (at != address(piece)) {
    piece->size = at - address(piece);
    link(piece, State::resident);
    part = make(at, end - at, piece);
  }
  if (above) {
    unlink(above);
    join_upper(part);
  }
  if (below) {
    unlink(below);
    join_upper(below);
    part = below;
  }
  link(part, State::given_back);
  // The pages that it shared with its neighbours. If the system keeps one, it counts as an end
  // page.
  const auto give_seam_back = [&](char* seam) {
    give_pages_back(pages_in(std::max(seam - kPage, behind_links(address(part))),
                             std::min(seam + 2 * kPage, address(upper(part)))));
  };
  if (above) give_seam_back(end);
  if (below) give_seam_back(at);
  return end - at;
}

bool PoolHeap::add_range(int64_t size) noexcept {
  try {
    ranges_.reserve(ranges_.size() + 1);
  } catch (const std::bad_alloc&) {
    return false;
  }
  const int64_t least = up(size + kLeast, kPage) + kPage;
  int64_t bytes = std::clamp(std::min(budget_, kRangeMax) * kRangeOfBudget, kRangeMin, kRangeMax);
  // If addresses are limited, stacks and the program's heap need some, too.
  bytes = std::max(up(std::min(bytes, addresses_left() / 4), kPage), least);
  void* begin = MAP_FAILED;
  for (;; bytes = std::max(up(bytes / 2, kPage), least)) {
    begin = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin != MAP_FAILED) break;
    if (bytes == least) {
      lacks_addresses_.store(true, std::memory_order_relaxed);
      return false;
    }
  }
  lacks_addresses_.store(false, std::memory_order_relaxed);
  char* const at = static_cast<char*>(begin);
  char* const last = at + bytes - kPage;
  const int flags = PROT_READ | PROT_WRITE;
  if (mprotect(last, kPage, flags) != 0 || mprotect(at, kPage, flags) != 0) {
    munmap(begin, static_cast<size_t>(bytes));
    return false;
  }
  ranges_.push_back({at, bytes, kPage});
  new (last) Piece;
  link(make(at, bytes - kPage, nullptr), State::given_back);
  return true;
}

// Makes `size` bytes of a piece writable, and the first bytes of the rest.
bool PoolHeap::make_writable(const Piece* piece, int64_t size) {
  const auto range = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) {
    return address(piece) >= r.begin && address(piece) < r.begin + r.size;
  });
  const int64_t end = address(piece) - range->begin + size + 2 * size_class::kLine;
  if (end <= range->writable) return true;
  const int64_t to = std::min(up(end, kWritableStep), range->size);
  if (mprotect(range->begin + range->writable, static_cast<size_t>(to - range->writable),
               PROT_READ | PROT_WRITE) != 0) {
    lacks_addresses_.store(false, std::memory_order_relaxed);
    return false;
  }
  range->writable = to;
  return true;
}

}  // namespace troupe
