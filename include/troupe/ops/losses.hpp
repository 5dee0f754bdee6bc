// Losses and other distances between predictions and labels, all for floats; see troupe/ops.hpp.
// Labels broadcast to the predictions, never the other way: [n] beside [n, 1] is refused.
#pragma once

#include "troupe/ops/sorting.hpp"

namespace troupe {

// ---- element by element; reduce_mean() reduces them to one number ----

// -z * log(sigmoid(x)) - (1 - z) * log(1 - sigmoid(x)), finite for all finite logits x and labels
// z.
Output sigmoid_cross_entropy(Output logits, Output labels, Origin at = Origin::here());
// With d = |predictions - labels|: d^2 / 2 up to delta, delta * (d - delta / 2) beyond (Huber
// 1964).
Output huber_loss(Output predictions, Output labels, double delta = 1, Origin at = Origin::here());
// max(0, 1 - logits * labels); labels are -1 and 1.
Output hinge_loss(Output logits, Output labels, Origin at = Origin::here());
// -z * log(p + epsilon) - (1 - z) * log(1 - p + epsilon), for probabilities p and labels z in [0,
// 1].
Output log_loss(Output predictions, Output labels, double epsilon = 1e-7,
                Origin at = Origin::here());

// ---- one number, or one a row ----

// The mean over all elements.
Output mean_squared_error(Output predictions, Output labels, Origin at = Origin::here());
Output mean_absolute_error(Output predictions, Output labels, Origin at = Origin::here());
// The sum of p * log(p / q) over the last dimension; 0 where p is 0.
Output kl_divergence(Output p, Output q, Origin at = Origin::here());
// The sum of a * b over one axis, divided by the norms of a and b, which count as at least 1e-8.
Output cosine_similarity(Output a, Output b, int64_t axis = -1, Origin at = Origin::here());
// -(the sum of z * log(softmax(logits))) over the last dimension, with z = (1 - label_smoothing) *
// probabilities + label_smoothing / classes (Szegedy et al. 2016).
Output softmax_cross_entropy_with_probabilities(Output logits, Output probabilities,
                                                double label_smoothing = 0,
                                                Origin at = Origin::here());

// ---- over few classes instead of all ----
// logits = inputs [batch, n] times weights [classes, n] plus biases [classes], of the labels and of
// candidates that were drawn with the labels as true_ids, minus the logarithm of each class's
// expected count. labels i32 or i64, [batch] or [batch, some]. One number a row. remove_hits: a
// candidate that is a label of a row does not count in that row.

// Noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012): logistic losses,
// labels against candidates.
Output nce_loss(Output weights, Output biases, Output inputs, Output labels,
                const Candidates& candidates, bool remove_hits = false, Origin at = Origin::here());
// The softmax cross entropy over labels and candidates (Jean et al. 2015), for training only.
Output sampled_softmax_loss(Output weights, Output biases, Output inputs, Output labels,
                            const Candidates& candidates, bool remove_hits = true,
                            Origin at = Origin::here());

// ---- sequences ----

// Connectionist temporal classification (Graves et al. 2006): -log of the probability that
// softmax(logits) spells the labels after blanks and repetitions are removed. logits [time, batch,
// classes], labels [batch, most], sizes [batch], all of i32 or i64: row b uses its first
// label_sizes[b] labels and its first time_sizes[b] times. Infinity, without a gradient, for labels
// that do not fit into the time -> [batch].
Output ctc_loss(Output logits, Output labels, Output time_sizes, Output label_sizes,
                int64_t blank = 0, Origin at = Origin::here());
// dL/d(logits) from dloss [batch].
Output ctc_loss_gradient(Output dloss, Output logits, Output labels, Output time_sizes,
                         Output label_sizes, int64_t blank = 0, Origin at = Origin::here());

}  // namespace troupe
