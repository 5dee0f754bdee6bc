// FirstRowValues: the values of a table's rows before their first update, as a pure function of the
// table's name and seed, the row and the column. Any process computes the same bits.
// Owner: RowStore. Thread: any.
#pragma once

#include <cstdint>
#include <string_view>

#include "troupe/ops/parameters.hpp"

namespace troupe {

class FirstRowValues {
 public:
  FirstRowValues(const FirstRows& rows, std::string_view table);
  // Writes the `width` elements of a row.
  template <class T>
  void fill(int64_t row, int64_t width, T* to) const;

 private:
  FirstRows rows_;
  uint64_t key_;
};

extern template void FirstRowValues::fill(int64_t, int64_t, float*) const;
extern template void FirstRowValues::fill(int64_t, int64_t, double*) const;

}  // namespace troupe
