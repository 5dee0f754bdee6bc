// Groups of the rows of a table: the units in which a table is cut over shards. Their number is
// fixed, so that a row's group does not depend on the number of shards.
// Owner: none, a plain function. Thread: any.
#pragma once

#include <cstdint>

namespace troupe {

inline constexpr int64_t kRowGroups = 64;

// Multiplicative hashing by 2^64 / golden ratio: rows that follow each other, such as the small
// numbers of frequent words, are spread evenly over the groups, and so are rows in even steps.
inline int64_t row_group(int64_t row) {
  return static_cast<int64_t>(static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15u >> 58);
}

}  // namespace troupe
