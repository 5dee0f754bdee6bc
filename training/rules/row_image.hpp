// RowImage: the rows of a slice of a table at one version, as blocks of records. A record is the
// row's number, the version of its last touch, its values, and its accumulators.
// Owner: a value; blocks are shared with the RowStore that made it, and frozen. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

struct RowLayout {
  DType dtype = DType::f32;
  int64_t width = 0;                      // elements of a row
  std::vector<std::string> accumulators;  // by name, each of `width` elements

  static constexpr int64_t kHead = 2 * sizeof(int64_t);
  static constexpr int64_t kBlockBytes = 128 << 10;
  int64_t row_bytes() const { return width * size_of(dtype); }
  int64_t record_bytes() const {  // a multiple of 16
    const int64_t all = kHead + row_bytes() * (1 + static_cast<int64_t>(accumulators.size()));
    return (all + 15) / 16 * 16;
  }
  // Records of a block, as a power of two: a block is copied when it changes under an image, so it
  // is small.
  int block_shift() const {
    int shift = 0;
    while (record_bytes() << (shift + 1) <= kBlockBytes) ++shift;
    return shift;
  }
};

struct RowRecord {
  static constexpr int64_t kFree = -1;
  int64_t row;      // kFree: the record is in no use
  int64_t touched;  // version
  // Part 0: the values; k: accumulator k - 1.
  char* part(const RowLayout& layout, size_t k) {
    return reinterpret_cast<char*>(this + 1) + static_cast<int64_t>(k) * layout.row_bytes();
  }
  const char* part(const RowLayout& layout, size_t k) const {
    return const_cast<RowRecord*>(this)->part(layout, k);
  }
};
static_assert(sizeof(RowRecord) == RowLayout::kHead);

struct RowImage {
  RowLayout layout;
  std::vector<Tensor> blocks;  // u8
  int64_t slots = 0;           // records, from the first block on, some of them free

  // The records in use, by row.
  std::vector<const RowRecord*> sorted() const;
  // Adds a block for `more` records and returns it. Requires: all blocks so far are full.
  char* add(int64_t more);
};

// True if both have the same rows, touches and bits.
bool same_rows(const RowImage& a, const RowImage& b);

}  // namespace troupe
