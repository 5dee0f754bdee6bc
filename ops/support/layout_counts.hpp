// How often this process has moved elements from one layout to another: what a step that is all in
// one layout does not do. Counted since the process began; any thread.
#pragma once

#include <cstdint>

namespace troupe {

struct LayoutCounts {
  int64_t transposes = 0;       // firings of Transpose that moved elements
  int64_t filter_reorders = 0;  // oneDNN's: of filters and other weights, which it packs
  int64_t image_reorders = 0;   // oneDNN's: of anything else
};
LayoutCounts layout_counts();

void count_transpose();
void count_reorder();         // each that oneDNN executes
void count_filter_reorder();  // who reorders weights says so, beside that

}  // namespace troupe
