// What softmax_cross_entropy and its gradient share: rules about logits and labels.
//   logits: [batch, classes], f32 or f64   labels: [batch], i32 or i64, each in [0, classes)
#pragma once

#include "devices/isa.hpp"
#include "ops/indices.hpp"

namespace troupe {

// For infer_dtypes and infer_shapes; `i` is the number of the input.
inline void require_label_dtype(const InferContext& ctx, int i) {
  if (ctx.dtype(i) != DType::i32 && ctx.dtype(i) != DType::i64)
    throw ctx.error("wants labels of i32 or i64, got ", ctx.dtype(i), "; cast them");
}

inline void require_logits_and_labels(const InferContext& ctx, const Shape& logits,
                                      const Shape& labels) {
  if (logits.ndim() != 2 || labels.ndim() != 1)
    throw ctx.error("wants logits [batch, classes] and labels [batch], got ", logits, " and ",
                    labels);
  if (logits[0] != labels[0] && logits[0] >= 0 && labels[0] >= 0)
    throw ctx.error("the logits are ", logits[0], " rows and the labels ", labels[0], ": ", logits,
                    " with ", labels);
}

// The same of dloss: [batch], of the dtype of the logits.
inline void require_loss_dtype(const InferContext& ctx, int logits, int dloss) {
  if (ctx.dtype(dloss) != ctx.dtype(logits))
    throw ctx.error("dloss and logits must have one dtype, got ", ctx.dtype(dloss), " and ",
                    ctx.dtype(logits), "; cast one of them");
}

inline void require_loss_gradient(const InferContext& ctx, const Shape& dloss,
                                  const Shape& logits) {
  if (dloss.ndim() != 1 || (dloss[0] != logits[0] && dloss[0] >= 0 && logits[0] >= 0))
    throw ctx.error("wants dloss [batch] and logits [batch, classes], got ", dloss, " and ",
                    logits);
}

// Throws: Error naming row and label, if one is out of range.
template <class L>
void check_labels(const KernelContext& ctx, const L* labels, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row)
    if (labels[row] < 0 || labels[row] >= classes)
      throw ctx.error("row ", row, " has the label ", labels[row], ", but there are ", classes,
                      " classes, counted from 0");
}

// One row of dL/d(logits): of y, e^(x - max) of each class, whose sum is `sum`, makes
// dloss * (softmax(x) - one_hot(label)).
template <class T>
void to_loss_slopes(T* y, T sum, T dloss, int64_t label, int64_t classes) {
  const T share = dloss / sum;
  TROUPE_INDEPENDENT
  for (int64_t j = 0; j < classes; ++j) y[j] *= share;
  y[label] -= dloss;
}

}  // namespace troupe
