// Where a window that slides over images stands: sizes of convolutions and pools in one dimension.
#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe {

// Output i sees inputs i * stride - before + [0, window); `before` and `after` count the padding at
// the ends.
struct Sliding {
  int64_t size = 0;  // of the output; -1 if that of the input is not known
  int64_t before = 0;
  int64_t after = 0;
};

// same: ceil(input / stride) outputs, the padding divided evenly and the odd one after, as in
// TensorFlow. Valid: no padding, floor((input - window) / stride) + 1 outputs. Requires: window and
// stride at least 1; valid: window <= input.
inline Sliding slide(int64_t input, int64_t window, int64_t stride, bool same) {
  if (input < 0) return {-1, 0, 0};
  if (!same) return {(input - window) / stride + 1, 0, 0};
  if (input == 0) return {};
  const int64_t size = (input - 1) / stride + 1;  // and (size - 1) * stride is below input
  const int64_t padding = std::max<int64_t>((size - 1) * stride - input + window, 0);
  return {size, padding / 2, padding - padding / 2};
}

}  // namespace troupe
