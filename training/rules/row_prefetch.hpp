// RowPrefetch: asks memory for the rows that a loop over indices comes to, as rows lie anywhere in
// a table and the processor cannot guess the next one.
//
// Owner: none. Thread: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace troupe {

template <class T>
class RowPrefetch {
 public:
  // Rows of `width` elements from `table` on; the loop calls reached() before each index in turn.
  RowPrefetch(const T* table, int64_t width, std::span<const int64_t> indices)
      : table_(table),
        width_(width),
        asked_(std::min(width * static_cast<int64_t>(sizeof(T)), kAskedMost)),
        indices_(indices) {
    for (size_t i = 0; i < std::min(kAhead, indices.size()); ++i) ask(i);
  }
  void reached(size_t i) const {
    if (i + kAhead < indices_.size()) ask(i + kAhead);
  }

 private:
  static constexpr size_t kAhead = 8;
  // The processor itself goes on with the lines of a long row.
  static constexpr int64_t kLine = 64, kAskedMost = 8 * kLine;

  void ask(size_t i) const {
    const char* const row = reinterpret_cast<const char*>(table_ + indices_[i] * width_);
    for (int64_t at = 0; at < asked_; at += kLine) __builtin_prefetch(row + at, 1);
  }

  const T* const table_;
  const int64_t width_, asked_;
  const std::span<const int64_t> indices_;
};

}  // namespace troupe
