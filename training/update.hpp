// One update of one slice: the mean of some gradients through an optimizer, copy on write. Plain
// functions over host tensors.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "training/rule.hpp"
#include "troupe/train.hpp"

namespace troupe {

class Lanes;

// What a shard holds of one slice.
struct SliceValues {
  int64_t version = 0;
  Tensor values;    // [n]
  Tensor previous;  // [n], those of previous_version; its memory is used again when it is free
  int64_t previous_version = -1;
  // Instead of `previous`, after an update of some rows in place: which (a packed gradient), and
  // their values as each was when its turn came, [rows, row size].
  Tensor previous_rows, previous_row_values;
  std::vector<std::pair<std::string, Tensor>> optimizer_slots;  // by name, [n]
  void forget_rows() {
    previous_rows.reset();
    previous_row_values.reset();
  }
};

// Slots of zeros for `optimizer`. Throws: Error(invalid_argument) for an unknown optimizer.
std::vector<std::pair<std::string, Tensor>> zero_slots(const Optimizer& optimizer, DType dtype,
                                                       int64_t n);

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
// of `dtype`, or of rows of it. Requires: f32 or f64.
std::optional<std::string> find_not_finite(const Tensor& gradient, DType dtype,
                                           Lanes* lanes = nullptr);

}  // namespace troupe
