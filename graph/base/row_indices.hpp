// Checks that indices name rows of a parameter; a loop in a header, so that several files can
// compile it for their instruction set.
#pragma once

#include <cstdint>

namespace troupe {

// True if all n indices are in [0, last]. For an index outside, the highest bit of the index or of
// its distance to `last` is set; there are no comparisons, so that the loop is vectorised.
// Requires: last < 2^63 - 1.
struct RowRangeLoop {
  static bool run(const int64_t* indices, int64_t n, uint64_t last) {
    uint64_t outside = 0;
    for (int64_t i = 0; i < n; ++i)
      outside |= static_cast<uint64_t>(indices[i]) | (last - static_cast<uint64_t>(indices[i]));
    return outside >> 63 == 0;
  }
};

}  // namespace troupe
