// thread_index(): a small number for each live thread, so that data that threads write often can be
// on separate cache lines. Implemented in devices/threads/thread_index.cpp.
//
// Two threads have the same number only when more than kThreadIndices are alive, or while one of
// them ends. A user must stay correct then, and may be slower.
// Owner: of a Tally its user. Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace troupe {

inline constexpr int kThreadIndices = 64;
inline constexpr size_t kCacheLine = 64;

namespace detail {
inline constinit thread_local int thread_index_of_mine = -1;  // -1: not drawn yet
int draw_thread_index();
}  // namespace detail

// In [0, kThreadIndices). The number of a thread that ended is given to a later one.
inline int thread_index() {
  const int mine = detail::thread_index_of_mine;
  return mine >= 0 ? mine : detail::draw_thread_index();
}

// A sum that many threads add to concurrently.
class Tally {
 public:
  // For each thread by itself, orders like one atomic number that all threads add to.
  void add(int64_t n, std::memory_order order = std::memory_order_relaxed) {
    parts_[static_cast<size_t>(thread_index())].value.fetch_add(n, order);
  }
  // Exact if no thread adds meanwhile.
  int64_t sum(std::memory_order order = std::memory_order_relaxed) const {
    int64_t out = 0;
    for (const Part& part : parts_) out += part.value.load(order);
    return out;
  }

 private:
  struct alignas(kCacheLine) Part {
    std::atomic<int64_t> value{0};
  };
  std::array<Part, kThreadIndices> parts_;
};

}  // namespace troupe
