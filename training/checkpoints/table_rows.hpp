// The rows of a slice of a table in a shard's file: tensors of their numbers, the versions of their
// last touches, their values and their accumulators, by row.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/files/safetensors.hpp"
#include "training/parameters/shard_image.hpp"

namespace troupe {

// The name of the tensor `part` of a slice; of its values without a part.
std::string tensor_name(const Slice& slice, const std::string& part = {});

inline constexpr const char* kRowNumbers = "row_numbers";
inline constexpr const char* kRowTouches = "touched";

// A tensor of a file, and the function that hands out its bytes in pieces, from the first on.
struct FileTensor {
  SafetensorsEntry entry;
  std::function<void(const std::function<void(std::span<const std::byte>)>&)> write;
};
// Adds the tensors of a table's slice. The state lives until they are written.
void add_table(const SliceState& state, std::vector<FileTensor>& tensors);

// Looks for the tensors of a slice with `rows` rows and these accumulators. Throws:
// Error(bad_data).
void check_table_entries(const SafetensorsReader& file, const Slice& slice, int64_t rows,
                         const std::vector<std::string>& accumulators);
// Adds the rows in the groups of `wanted` to `out`, whose accumulators the file has. Throws:
// Error(bad_data) for rows that the stored slice cannot have.
void read_table(const SafetensorsReader& file, const SliceState& stored, int64_t rows,
                const Slice& wanted, RowImage& out);

}  // namespace troupe
