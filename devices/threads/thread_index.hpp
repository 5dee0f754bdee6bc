// thread_index(): a small number for each thread that is alive, so that what threads write often
// can lie apart, a cache line each. Implemented in devices/threads/thread_index.cpp.
//
// Two threads have the same number only when more than kThreadIndices are alive. So whoever uses it
// stays correct then, and is slower.
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

// In [0, kThreadIndices). A number that a thread had is given to a later one.
inline int thread_index() {
  const int mine = detail::thread_index_of_mine;
  return mine >= 0 ? mine : detail::draw_thread_index();
}

// A sum to which many threads add at once.
class Tally {
 public:
  // Orders as one atomic number would that all threads add to, for each thread by itself.
  void add(int64_t n, std::memory_order order = std::memory_order_relaxed) {
    parts_[static_cast<size_t>(thread_index())].value.fetch_add(n, order);
  }
  // Exact when nobody adds meanwhile.
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
