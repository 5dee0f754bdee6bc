// What LeftShift and RightShift share.
#pragma once

#include <concepts>

#include "ops/support/elementwise.hpp"

namespace troupe {

struct Shift {
  template <class T>
  static constexpr T kBits = 8 * sizeof(T);

  template <std::signed_integral T>
  static void check(const KernelContext& ctx, const T* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      if (b[i] < 0)
        throw ctx.error("shifts by a negative number of bits: element ", i, " of b is ", b[i],
                        "; shift the other way");
  }
};

}  // namespace troupe
