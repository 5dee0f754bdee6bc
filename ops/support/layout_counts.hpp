// Counts how often this process moved elements from one layout to another; a step that keeps one
// layout does none of this. The counts start with the process. Any thread.
#pragma once

#include <cstdint>

namespace troupe {

struct LayoutCounts {
  int64_t transposes = 0;       // firings of Transpose that moved elements
  int64_t filter_reorders = 0;  // by oneDNN: filters and other weights, which it packs
  int64_t image_reorders = 0;   // by oneDNN: everything else
};
LayoutCounts layout_counts();

void count_transpose();
void count_reorder();         // called for each reorder that oneDNN executes
void count_filter_reorder();  // called in addition for a reorder of weights

}  // namespace troupe
