// The bits of a slice of a table whose rows are made on first touch: rows, touches, values and
// accumulators.
#pragma once

#include <optional>

#include "chaos/history.hpp"
#include "training/parameters/shard_image.hpp"
#include "training/rules/row_store.hpp"
#include "training/rules/update.hpp"

namespace troupe::sim {

inline std::optional<RowImage> rows_in(const SliceValues& values) {
  if (!values.table) return std::nullopt;
  return values.table->image();
}
inline const std::optional<RowImage>& rows_in(const SliceState& state) { return state.rows; }

inline uint64_t add_rows(uint64_t hash, const std::optional<RowImage>& rows) {
  if (rows)
    for (const RowRecord* r : rows->sorted())
      hash = fnv(hash, r, static_cast<size_t>(rows->layout.record_bytes()));
  return hash;
}

}  // namespace troupe::sim
