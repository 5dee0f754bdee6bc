// One update of one slice: applies the mean of gradients through an optimizer, copy on write. Plain
// functions over host tensors.
// Owner: Shard owns the SliceValues. Thread: the shard's; `lanes` share large updates.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "training/rules/pool_block.hpp"
#include "training/rules/rule.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {

class Lanes;
class RowStore;

// The rows of a slice that were read last, if the reader is in this process. The next push is
// likely to be of the same rows in the same step: then the indices are known to be valid, and the
// values that were read are the old values of the update.
struct RowsRead {
  int32_t replica = -1;
  int64_t step = -1;
  Tensor indices;        // i64 [n], all valid
  int64_t row_size = 0;  // elements
  Tensor values;         // [n, row size], of `version`, or undefined
  int64_t version = -1;
  // True if these are the same rows. The tensor keeps its memory, so no other rows can be at its
  // address.
  bool has(const Gradient& rows) const;
};

// The values that a shard holds for one slice.
struct SliceValues {
  int64_t version = 0;
  Tensor values;    // [n]
  Tensor previous;  // [n], of previous_version; its memory is reused when it is free
  int64_t previous_version = -1;
  // Replaces `previous` after an in-place update of some rows: the rows with their old values, each
  // as it was just before it was changed or before the first change.
  Gradient previous_rows;
  RowsRead read;
  std::vector<std::pair<std::string, Tensor>> optimizer_accumulators;  // by name, [n]
  int64_t accumulators_since = 0;  // the version at which they were zeros
  // The rows of a table that makes them on first touch, with values and accumulators; `values` is
  // empty then. It keeps the rows that changed as they were in the previous version.
  std::shared_ptr<RowStore> table = {};
};

// Accumulators of zeros for `optimizer`. Throws: Error(invalid_argument) for an unknown optimizer.
std::vector<std::pair<std::string, Tensor>> zero_accumulators(const Optimizer& optimizer,
                                                              DType dtype, int64_t n);

// Resources that an update may use.
struct UpdateMeans {
  Lanes* lanes = nullptr;  // share the work of a large update; null: the caller's thread does it
  Tensor room = {};  // new values may be written here; may be the memory of the first gradient
  SegmentPool* segments = nullptr;  // otherwise made here, if other processes read it; null: never
};

// Returns the gradient if no other owner holds it and it fills a large buffer of `memory`: that may
// become the buffer of the new values. Otherwise undefined.
Tensor room_of(const Gradient& gradient, const ShardMemory& memory);

// Applies the mean of the gradients, summed in their order, as update number version + 1. Values
// that are shared, and with `keep_previous` all values, stay unchanged and become `previous`. If
// all gradients are by rows, with each row once except for SGD, only their rows change, and only
// the old values of these are kept. Returns whether the update was made in place. Requires: at
// least one gradient; f32 or f64; sizes agree.
bool apply_mean(const Optimizer& optimizer, std::span<const Contribution> gradients,
                bool keep_previous, SliceValues& state, UpdateMeans means = {});

// Update number version + 1, without a gradient: values and accumulators stay as they are.
void pass_update(bool keep_previous, SliceValues& state);

// Replaces the tensor by a copy if it is shared.
void make_writable(Tensor& tensor);

// The values of previous_version.
const Tensor& previous_values(SliceValues& state);

// Describes the first element that is NaN or infinite, "element 12 is nan". Requires: f32 or f64.
std::optional<std::string> find_not_finite(const Gradient& gradient, Lanes* lanes = nullptr);

}  // namespace troupe
