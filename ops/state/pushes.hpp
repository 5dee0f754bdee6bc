// Pushes besides push_gradient(): gradients by rows (troupe/ops/parameters.hpp), and gradients that
// may not be finite (troupe/optimizer.hpp).
#pragma once

#include <vector>

#include "troupe/optimizer.hpp"

namespace troupe {

struct RowSparse {
  Output indices;  // [n], i64
  Output values;   // [n, sizes of a row...]
};

// The distinct indices of [0, rows), i32 or i64, in the order of their first appearance, and for
// each of them the sum of its values, floats, in their order: indices [i...], values [i...,
// row...]. Only the step knows how many there are.
RowSparse sum_rows(Output indices, Output values, int64_t rows, Origin at = Origin::here());

// push_gradient() of rows that are distinct, or with sgd may repeat; the other rows have no
// gradient.
Output push_row_gradient(Output parameter, RowSparse gradient, const Optimizer& optimizer,
                         const std::vector<int32_t>& control_inputs = {},
                         Origin at = Origin::here());

// push_gradient() if `finite`, a bool scalar, is true; otherwise a push that counts as this step's
// and changes nothing. Has no output. Throws: Error(invalid_argument) for an argument that is no
// parameter, a gradient that is not f32 or f64 or not of the parameter's type, and a `finite` that
// is no bool scalar.
Output push_finite_gradient(Output parameter, Output gradient, Output finite,
                            const Optimizer& optimizer,
                            const std::vector<int32_t>& control_inputs = {},
                            Origin at = Origin::here());

}  // namespace troupe
