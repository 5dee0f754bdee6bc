// Shared by softmax_cross_entropy, its gradients and in_top_k: checks of logits and labels.
//   logits: [..., classes], f32 or f64   labels: [...], i32 or i64, each in [0, classes)
// A row is the logits of one label; error texts count rows through all leading dimensions.
#pragma once

#include <algorithm>

#include "devices/threads/isa.hpp"
#include "ops/support/indices.hpp"

namespace troupe {

// For infer_dtypes and infer_shapes; `i` is the index of the input.
inline void require_label_dtype(const InferContext& ctx, int i) {
  if (ctx.dtype(i) != DType::i32 && ctx.dtype(i) != DType::i64)
    throw ctx.error("wants labels of i32 or i64, got ", ctx.dtype(i),
                    "; cast them, or with a probability for each class call "
                    "softmax_cross_entropy_with_probabilities()");
}

// True if x, [...], has one element for each row of the logits.
inline bool has_row_for_each(const Shape& logits, const Shape& x) {
  bool fits = x.ndim() + 1 == logits.ndim();
  for (int d = 0; fits && d < x.ndim(); ++d) fits = may_equal(x[d], logits[d]);
  return fits;
}

inline void require_logits_and_labels(const InferContext& ctx, const Shape& logits,
                                      const Shape& labels) {
  if (!has_row_for_each(logits, labels))
    throw ctx.error("wants logits [..., classes] and a label for each row, [...], got ", logits,
                    " and ", labels,
                    labels.ndim() > 0 && labels.ndim() == logits.ndim() &&
                            may_equal(labels[labels.ndim() - 1], 1)
                        ? "; squeeze(labels, {-1}) takes a last dimension of 1 away"
                        : "");
}

// The shape [...], with the sizes known from logits or labels.
inline Shape shape_of_rows(const Shape& logits, const Shape& labels) {
  Shape shape = labels;
  for (int d = 0; d < shape.ndim(); ++d) shape.set(d, std::max(logits[d], labels[d]));
  return shape;
}

// Throws: Error with the row and the label if one is out of range.
template <class L>
void check_labels(const KernelContext& ctx, const L* labels, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row)
    if (labels[row] < 0 || labels[row] >= classes)
      throw ctx.error("row ", row, " has the label ", labels[row], ", but there are ", classes,
                      " classes, counted from 0");
}

}  // namespace troupe
