// Sorting, counting, segments, and random samples beyond those of troupe/ops.hpp. Everything that
// troupe/ops.hpp says of its functions holds for these.
#pragma once

#include <string_view>

#include "troupe/graph.hpp"

namespace troupe {

// ---- order ----
// Of numbers. NaN counts as greater than all of them; equals keep their order.

struct TopK {
  Output values, indices;  // [..., k]; indices are i64
};
// The k greatest along the last dimension, the greatest first.
TopK top_k(Output x, int64_t k, Origin at = Origin::here());
struct SortOptions {
  int64_t axis = -1;
  bool descending = false;
};
Output sort(Output x, SortOptions options = {}, Origin at = Origin::here());
// Where the elements stand, i64, that sort() puts in this order.
Output argsort(Output x, SortOptions options = {}, Origin at = Origin::here());
// x at indices, i32 or i64, along one axis; the other sizes of both are the same.
Output take_along(Output x, Output indices, int64_t axis = -1, Origin at = Origin::here());
// Adds dy, floats, into zeros like x, where take_along found it. Of x_like only the shape is used.
Output take_along_gradient(Output dy, Output indices, Output x_like, int64_t axis = -1,
                           Origin at = Origin::here());
// Where `values` would be put, i64, into lines that are in rising order: before equals, or after
// them if `right`. sorted [n] and values of any shape; or [..., n] and [..., m].
Output search_sorted(Output sorted, Output values, bool right = false, Origin at = Origin::here());
// Whether fewer than k logits of a row are greater than that of its label: logits, floats, [...,
// classes], labels [...] i32 or i64 -> bool [...].
Output in_top_k(Output logits, Output labels, int64_t k, Origin at = Origin::here());

// ---- counts and segments ----

struct Unique {
  Output values, indices, counts;  // indices and counts are i64
};
// The different elements of x in the order they appear; which of them each element of x is; how
// often each is there. Their number depends on the values.
Unique unique(Output x, Origin at = Origin::here());
// How often each number from 0 to length - 1 is in x, i32 or i64: i64 [length]. -1: up to the
// greatest there is.
Output bincount(Output x, int64_t length = -1, Origin at = Origin::here());

// y[s] joins the rows of x, numbers but u8, whose id, i32 or i64 in [0, segments), is s; -1: as
// many segments as the greatest id asks for. x [n, ...] and ids [n], which do not fall ->
// [segments,
// ...]. Where there is no row: 0, the mean 0, the product 1, the greatest -infinity, the least
// infinity (integers: the ends of their range).
Output segment_sum(Output x, Output ids, int64_t segments = -1, Origin at = Origin::here());
Output segment_mean(Output x, Output ids, int64_t segments = -1,
                    Origin at = Origin::here());  // of floats
Output segment_max(Output x, Output ids, int64_t segments = -1, Origin at = Origin::here());
Output segment_min(Output x, Output ids, int64_t segments = -1, Origin at = Origin::here());
Output segment_prod(Output x, Output ids, int64_t segments = -1, Origin at = Origin::here());
// The same with ids in any order: x [i..., rest...] and ids [i...] -> [segments, rest...].
Output unsorted_segment_sum(Output x, Output ids, int64_t segments, Origin at = Origin::here());
Output unsorted_segment_mean(Output x, Output ids, int64_t segments, Origin at = Origin::here());
Output unsorted_segment_max(Output x, Output ids, int64_t segments, Origin at = Origin::here());
Output unsorted_segment_min(Output x, Output ids, int64_t segments, Origin at = Origin::here());
Output unsorted_segment_prod(Output x, Output ids, int64_t segments, Origin at = Origin::here());

// ---- random samples ----
// Keyed like random_uniform: by (seed, node name, training step, replica).

Output random_normal(Graph& graph, Shape shape, double mean = 0, double stddev = 1,
                     int64_t seed = 0, DType dtype = DType::f32, std::string_view name = "",
                     Origin at = Origin::here());
// Whole numbers in [low, high), i32 or i64.
Output random_int(Graph& graph, Shape shape, int64_t low, int64_t high, int64_t seed = 0,
                  DType dtype = DType::i64, std::string_view name = "", Origin at = Origin::here());
// The numbers from 0 to n - 1, i64, in any order.
Output random_permutation(Graph& graph, int64_t n, int64_t seed = 0, std::string_view name = "",
                          Origin at = Origin::here());
// The rows of x, [n, ...], in any order.
Output shuffle(Output x, int64_t seed = 0, Origin at = Origin::here());
// 1 with probability p, floats in [0, 1], else 0, in p's dtype.
Output bernoulli(Output p, int64_t seed = 0, std::string_view name = "",
                 Origin at = Origin::here());
// Classes with the probabilities softmax(logits): floats [batch, classes] -> i64 [batch, count].
Output categorical(Output logits, int64_t count, int64_t seed = 0, std::string_view name = "",
                   Origin at = Origin::here());
// Of the gamma distribution of shape alpha, positive floats, and scale 1, in alpha's shape.
Output random_gamma(Output alpha, int64_t seed = 0, std::string_view name = "",
                    Origin at = Origin::here());

// Classes for a sampled loss (nce_loss, sampled_softmax_loss).
struct Candidates {
  Output ids;            // i64 [count]
  Output true_expected;  // how often each class of true_ids was to be expected among them
  Output expected;       // the same for ids, [count]
};
struct CandidateOptions {
  bool unique = true;  // each class once
  int64_t seed = 0;
};
// Of classes that are numbered by falling frequency; true_ids are i32 or i64 in [0, classes), the
// expected counts f32 or f64.
Candidates log_uniform_candidates(Output true_ids, int64_t classes, int64_t count,
                                  CandidateOptions options = {}, DType dtype = DType::f32,
                                  Origin at = Origin::here());
// Of classes with weights [classes], floats, to the power of `distortion`.
Candidates unigram_candidates(Output true_ids, Output weights, int64_t count,
                              CandidateOptions options = {}, double distortion = 1,
                              Origin at = Origin::here());

}  // namespace troupe
