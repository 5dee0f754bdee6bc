// The process's counters of layout changes.
#include "ops/support/layout_counts.hpp"

#include <atomic>

namespace troupe {
namespace {

std::atomic<int64_t> transposes{0}, reorders{0}, filter_reorders{0};

}  // namespace

LayoutCounts layout_counts() {
  const int64_t filters = filter_reorders.load(std::memory_order_relaxed);
  return {.transposes = transposes.load(std::memory_order_relaxed),
          .filter_reorders = filters,
          .image_reorders = reorders.load(std::memory_order_relaxed) - filters};
}

void count_transpose() { transposes.fetch_add(1, std::memory_order_relaxed); }
void count_reorder() { reorders.fetch_add(1, std::memory_order_relaxed); }
void count_filter_reorder() { filter_reorders.fetch_add(1, std::memory_order_relaxed); }

}  // namespace troupe
