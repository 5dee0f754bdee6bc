// One update of one slice: the mean of some gradients through an optimizer, copy on write. Plain
// functions over host tensors.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "training/rules/rule.hpp"
#include "troupe/train.hpp"

namespace troupe {

class Lanes;

// The last rows that were read of a slice, if whoever read them is in this process. A push of the
// same rows in the same step is likely to be next: they are known to be there, and what was read is
// what they were before it.
struct RowsRead {
  int32_t replica = -1;
  int64_t step = -1;
  Tensor indices;        // i64 [n], of rows that there are
  int64_t row_size = 0;  // elements
  Tensor values;         // [n, row size], of `version`, or undefined
  int64_t version = -1;
  // Whether these are the same rows, and no others could be in that memory meanwhile.
  bool has(const Tensor& rows, int64_t size) const;
};

// What a shard holds of one slice.
struct SliceValues {
  int64_t version = 0;
  Tensor values;    // [n]
  Tensor previous;  // [n], those of previous_version; its memory is used again when it is free
  int64_t previous_version = -1;
  // Instead of `previous`, after an update of some rows in place: which (a packed gradient, or
  // indices), and their values as each was when its turn came, or before the first, [rows, row
  // size].
  Tensor previous_rows, previous_row_values;
  RowsRead read;
  std::vector<std::pair<std::string, Tensor>> optimizer_accumulators;  // by name, [n]
  void forget_rows() {
    previous_rows.reset();
    previous_row_values.reset();
  }
};

// Accumulators of zeros for `optimizer`. Throws: Error(invalid_argument) for an unknown optimizer.
std::vector<std::pair<std::string, Tensor>> zero_accumulators(const Optimizer& optimizer,
                                                              DType dtype, int64_t n);

// What an update may use.
struct UpdateMeans {
  Lanes* lanes = nullptr;  // share the work of a large one; null: the caller's thread does it
  Tensor room = {};        // new values may be written here; may be that of the first gradient
};

// The gradient, if nobody else holds it and it is as large as its buffer, a large one of `pool`:
// its memory may become that of the new values. Otherwise undefined.
Tensor room_of(const Tensor& gradient, DType dtype, const BufferOwner* pool);

// Applies the mean of the gradients, summed in their order, as update number version + 1. Values
// that somebody else holds, and with `keep_previous` all values, are left as they are and become
// `previous`. Gradients by rows alone (troupe/ops/row_sparse.hpp), each row once but for SGD, touch
// their rows alone, and keep these of the old values. Returns whether the update was made in place.
// Requires: at least one gradient; f32 or f64; sizes agree.
bool apply_mean(const Optimizer& optimizer, std::span<const Contribution> gradients,
                bool keep_previous, SliceValues& state, UpdateMeans means = {});

// A copy in its place, if somebody else holds it, too.
void make_writable(Tensor& tensor);

// The values of previous_version.
const Tensor& previous_values(SliceValues& state);

// The first element that is NaN or infinite: "element 12 is nan", of a gradient of `size` elements
// of `dtype`, or of rows of it: packed, or with their indices. Requires: f32 or f64.
std::optional<std::string> find_not_finite(const Tensor& gradient, DType dtype,
                                           Lanes* lanes = nullptr, const Tensor& rows = {});

}  // namespace troupe
