// Whether indices name rows of a parameter: the loop, for whoever compiles it.
#pragma once

#include <cstdint>

namespace troupe {

// All n indices are in [0, last]. An index has its highest bit, or its distance to the last row
// has, if it is not; without comparisons, so that the loop is vectorised. Requires: last < 2^63
// - 1.
struct RowRangeLoop {
  static bool run(const int64_t* indices, int64_t n, uint64_t last) {
    uint64_t outside = 0;
    for (int64_t i = 0; i < n; ++i)
      outside |= static_cast<uint64_t>(indices[i]) | (last - static_cast<uint64_t>(indices[i]));
    return outside >> 63 == 0;
  }
};

}  // namespace troupe
