// Copies rows of equal length one by one, for ops that choose, filter or restore rows.
#pragma once

#include <cstdint>
#include <cstring>

namespace troupe {

// kBytes: the row size if it is known at compile time, so that a copy is a move instead of a call;
// else 0.
template <int64_t kBytes, class From, class To>
void copy_rows_of(int64_t count, int64_t row_bytes, const char* x, char* y, From& from, To& to) {
  const int64_t bytes = kBytes ? kBytes : row_bytes;
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(y + to(i) * bytes, x + from(i) * bytes, static_cast<size_t>(bytes));
}

// Row to(i) of y = row from(i) of x, for i = 0, 1, ... in this order. x and y do not overlap.
template <class From, class To>
void copy_rows(int64_t count, int64_t row_bytes, const void* x, void* y, From from, To to) {
  const char* source = static_cast<const char*>(x);
  char* target = static_cast<char*>(y);
  if (row_bytes == 0) return;
  if (row_bytes == 1) return copy_rows_of<1>(count, row_bytes, source, target, from, to);
  if (row_bytes == 4) return copy_rows_of<4>(count, row_bytes, source, target, from, to);
  if (row_bytes == 8) return copy_rows_of<8>(count, row_bytes, source, target, from, to);
  copy_rows_of<0>(count, row_bytes, source, target, from, to);
}

inline int64_t same_row(int64_t i) { return i; }

}  // namespace troupe
