// Layout: which shard holds which part of which parameter. A pure function of the parameters and
// the number of shards, so every process comes to the same answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/train.hpp"

namespace troupe {

struct ParameterSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::optional<Optimizer> optimizer = {};  // none: never trained, only read
};

// Elements [offset, offset + size) of one parameter, in row-major order.
struct Slice {
  uint32_t id =
      0;  // counts from 0 in the order of parameters and offsets; the same in every message
  std::string parameter;
  DType dtype = DType::f32;
  Shape shape;                   // of the whole parameter
  int64_t offset = 0, size = 0;  // elements
  std::optional<Optimizer> optimizer = {};
  int32_t shard = 0;

  int64_t bytes() const { return size * size_of(dtype); }
  bool whole() const { return offset == 0 && size == shape.size(); }
};

// "fc1/w[0:500]", or "fc1/w" for a whole parameter; for messages.
std::string describe(const Slice& slice);

// A parameter is split into pieces of at least this many bytes, at most one per shard: smaller ones
// cost more in messages than they save in balance.
inline constexpr int64_t kPieceBytesMin = 64 << 10;

// Splits big parameters evenly, but for those whose optimizer wants them whole (at rows where a row
// is small against a piece, else at multiples of 64 bytes) and packs all pieces so that the bytes
// per shard balance: largest first onto the emptiest shard (Graham 1969); equal ones in order.
// `first_slice` and up are the ids. Throws: Error(invalid_argument) for no shards, a shape that is
// not known, or a name given twice.
std::vector<Slice> split_parameters(const std::vector<ParameterSpec>& parameters,
                                    int32_t shard_count, uint32_t first_slice = 0);

}  // namespace troupe
