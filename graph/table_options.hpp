// Settings of a table whose rows are made on first touch (troupe/ops/parameters.hpp), as text.
// Implemented in graph/table_options.cpp.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "troupe/ops/parameters.hpp"

namespace troupe {

// "uniform -0.1 0.1 seeded 7 forget_after 100 rows_max 0": graphs, messages and checkpoints hold
// this text; it reads back with the same bits.
std::string describe(const TableOptions& options);
// Throws: Error(invalid_argument) for another text.
TableOptions table_options_from_text(std::string_view text);

// The most elements of a table: sums and products of bytes do not overflow.
inline constexpr int64_t kTableElementsMax = int64_t{1} << 56;
// Throws: Error(invalid_argument) if no table can be so.
void check_table(DType dtype, const Shape& shape, const TableOptions& options);

}  // namespace troupe
