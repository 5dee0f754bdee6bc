// Losses over the labels and sampled candidates instead of all classes;
// include/troupe/ops/networks.hpp gives their formulas.
#include <limits>

#include "ops/nn/losses.hpp"

namespace troupe {
namespace {

// The logits of the labels [batch, labels of a row] and of the candidates [batch, candidates].
struct SampledLogits {
  Output labels, candidates;
};

// Marks the candidates that are labels of a row: bool [batch, candidates]. like: [batch, labels,
// 1], read for its shape only.
Output hits(Output labels, Output ids, Output like) {
  const Output same = equal(reshape_like(labels, cast(like, DType::i64)), ids);
  return cast(reduce_max(cast(same, DType::u8), {.axes = {1}}), DType::boolean);
}

// Sizes may be unknown, so new dimensions take their sizes from other values.
SampledLogits sampled_logits(Output weights, Output biases, Output inputs, Output labels,
                             const Candidates& candidates, bool remove_hits) {
  const Output of_labels = gather(weights, labels);  // [batch, labels, n]
  const Output row = reshape_like(inputs, slice(of_labels, {0, 0, 0}, {-1, 1, -1}));
  const Output true_logits = reduce_sum(multiply(of_labels, row), {.axes = {-1}});
  const Output true_expected = reshape_like(candidates.true_expected, true_logits);
  const Output other_logits =
      matmul(inputs, gather(weights, candidates.ids), {.transpose_b = true});
  SampledLogits logits = {
      add(true_logits, gather(biases, labels)) - log(true_expected),
      add(other_logits, gather(biases, candidates.ids)) - log(candidates.expected)};
  if (remove_hits) {
    const DType dtype = inputs.dtype();
    const double low = dtype == DType::f64    ? std::numeric_limits<double>::lowest()
                       : dtype == DType::f32  ? double{std::numeric_limits<float>::lowest()}
                       : dtype == DType::bf16 ? double{std::numeric_limits<BFloat16>::lowest()}
                                              : double{std::numeric_limits<Float16>::lowest()};
    const Output like = slice(of_labels, {0, 0, 0}, {-1, -1, 1});
    logits.candidates =
        where(hits(labels, candidates.ids, like), constant_like(low, inputs), logits.candidates);
  }
  return logits;
}

// The labels as [batch, labels of a row], i64.
Output label_rows(Output inputs, Output labels, const char* name, Origin at) {
  if (inputs.shape().ndim() != 2)
    throw refused(name, at, "wants inputs [batch, n], got ", inputs.shape());
  if (!labels.defined())
    throw refused(name, at, "the labels are undefined; pass the result of an op");
  const int ndim = labels.shape().ndim();
  if (ndim != 1 && ndim != 2)
    throw refused(name, at, "wants labels [batch] or [batch, some], got ", labels.shape());
  const Output ids = labels.dtype() == DType::i64 ? labels : cast(labels, DType::i64);
  return ndim == 2 ? ids : reshape(ids, {-1, 1});
}

}  // namespace

Output nce_loss(Output weights, Output biases, Output inputs, Output labels,
                const Candidates& candidates, bool remove_hits, Origin at) {
  const auto scope = loss_scope(inputs, "nce_loss", at);
  const Output ids = label_rows(inputs, labels, "nce_loss", at);
  const SampledLogits logits =
      sampled_logits(weights, biases, inputs, ids, candidates, remove_hits);
  // The labels of a row share a probability of 1.
  const Output ones = cast(equal(ids, ids), inputs.dtype());
  const Output shares = divide(ones, reduce_sum(ones, {.axes = {1}, .keep_dims = true}));
  const Output zero = constant_like(0, inputs);
  const ReduceOptions rows = {.axes = {1}};
  return add(reduce_sum(sigmoid_cross_entropy(logits.labels, shares), rows),
             reduce_sum(sigmoid_cross_entropy(logits.candidates, zero), rows));
}

// log(sum of e^logits) - the mean of the labels' logits: the labels of a row share a probability of
// 1.
Output sampled_softmax_loss(Output weights, Output biases, Output inputs, Output labels,
                            const Candidates& candidates, bool remove_hits, Origin at) {
  const auto scope = loss_scope(inputs, "sampled_softmax_loss", at);
  const Output ids = label_rows(inputs, labels, "sampled_softmax_loss", at);
  const SampledLogits logits =
      sampled_logits(weights, biases, inputs, ids, candidates, remove_hits);
  const Output all = concat({logits.labels, logits.candidates}, 1);
  const Output own = reduce_mean(logits.labels, {.axes = {1}, .keep_dims = true});
  return reduce_sum(subtract(log_sum_exp_rows(all), own), {.axes = {1}});
}

}  // namespace troupe
