// Layout: which shard holds which part of which parameter. A pure function of the parameters and
// the number of shards, so every process computes the same layout.
// Owner: none, plain values. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "training/rules/row_group.hpp"
#include "troupe/graph.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {

struct ParameterSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::optional<Optimizer> optimizer = {};  // none: never trained, only read
  std::optional<TableOptions> table = {};   // its rows are made on first touch
};

// Elements [offset, offset + size) of one parameter, in row-major order; of a table, the groups of
// rows (training/rules/row_group.hpp) with these numbers.
struct Slice {
  // Counts from 0 in the order of parameters and offsets; the same in every message.
  uint32_t id = 0;
  std::string parameter;
  DType dtype = DType::f32;
  Shape shape;                   // of the whole parameter
  int64_t offset = 0, size = 0;  // elements, or groups
  std::optional<Optimizer> optimizer = {};
  int32_t shard = 0;
  std::optional<TableOptions> table = {};

  int64_t elements() const { return table ? 0 : size; }  // that have values from the start
  int64_t bytes() const { return elements() * size_of(dtype); }
  int64_t extent() const { return table ? kRowGroups : shape.size(); }  // of the whole parameter
  bool whole() const { return offset == 0 && size == extent(); }
  int64_t row_size() const { return shape[0] > 0 ? shape.size() / shape[0] : 0; }  // of a table
};

// "fc1/w[0:500]", or "fc1/w" for a whole parameter; for messages.
std::string describe(const Slice& slice);

// A parameter is split into pieces of at least this many bytes, at most one per shard: smaller
// pieces cost more in messages than they save in balance.
inline constexpr int64_t kPieceBytesMin = 64 << 10;

// Splits tables into groups of rows for all shards, and big parameters evenly, except those whose
// optimizer needs them whole: at rows if a row is small against a piece, else at multiples of 64
// bytes. Packs all pieces so that the bytes per shard balance: largest first onto the emptiest
// shard (Graham 1969), equal ones in order. Ids count from `first_slice`. Throws:
// Error(invalid_argument) for no shards, an unknown shape, a duplicate name, or a table whose
// optimizer needs it whole.
std::vector<Slice> split_parameters(const std::vector<ParameterSpec>& parameters,
                                    int32_t shard_count, uint32_t first_slice = 0);

}  // namespace troupe
