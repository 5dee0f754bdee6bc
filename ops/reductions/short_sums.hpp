// Sums of short rows, four rows at a time: the additions of reduce_leaf<Add>
// (ops/reductions/reduction.hpp) in the same order, so the bits are the same. For a single row, the
// last levels of the tree are a few dependent additions and shuffles; four rows share these levels.
#pragma once

#include <cstdint>
#include <cstring>

namespace troupe {

class ShortSums {
  typedef float Four __attribute__((vector_size(16)));
  typedef float Eight __attribute__((vector_size(32)));

 public:
  // y[r] = the sum of row r of [rows, n]. Returns the number of rows that it summed. Requires: 16
  // <= n.
  static int64_t run(const float* x, int64_t rows, int64_t n, float* y) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) sum_four(x + r * n, n, y + r);
    return r;
  }

 private:
  static void sum_four(const float* x, int64_t n, float* y) {
    Four rows[4];
    for (Four& sum : rows) {
      Eight low, high, more;  // partial results 0 to 7, 8 to 15
      std::memcpy(&low, x, sizeof(low));
      std::memcpy(&high, x + 8, sizeof(high));
      int64_t i = 16;
      for (; i + 16 <= n; i += 16) {
        std::memcpy(&more, x + i, sizeof(more));
        low += more;
        std::memcpy(&more, x + i + 8, sizeof(more));
        high += more;
      }
      if (i + 8 <= n) {
        std::memcpy(&more, x + i, sizeof(more));
        low += more;
      }
      if ((n - i) % 8 != 0) add_rest(x + i, n - i, low, high);
      low += high;
      sum = __builtin_shufflevector(low, low, 0, 1, 2, 3) +
            __builtin_shufflevector(low, low, 4, 5, 6, 7);
      x += n;
    }
    const Four a = __builtin_shufflevector(rows[0], rows[1], 0, 1, 4, 5) +
                   __builtin_shufflevector(rows[0], rows[1], 2, 3, 6, 7);
    const Four b = __builtin_shufflevector(rows[2], rows[3], 0, 1, 4, 5) +
                   __builtin_shufflevector(rows[2], rows[3], 2, 3, 6, 7);
    const Four all =
        __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
    std::memcpy(y, &all, sizeof(all));
  }

  // Adds the last n % 8 of n < 16 elements; the other partial results stay unchanged.
  static void add_rest(const float* x, int64_t n, Eight& low, Eight& high) {
    float parts[16];
    std::memcpy(parts, &low, sizeof(low));
    std::memcpy(parts + 8, &high, sizeof(high));
    for (int64_t j = n / 8 * 8; j < n; ++j) parts[j] += x[j];
    std::memcpy(&low, parts, sizeof(low));
    std::memcpy(&high, parts + 8, sizeof(high));
  }
};

}  // namespace troupe
