// Sorting, counting, segments, and random samples besides those of troupe/ops.hpp. The conventions
// of troupe/ops.hpp hold for these functions.
#pragma once

#include <string_view>

#include "troupe/graph.hpp"

namespace troupe {

// ---- order ----
// For numbers. NaN counts as greater than all of them; equals keep their order.

struct TopK {
  Output values, indices;  // [..., k]; indices are i64
};
// The k greatest along the last dimension, in falling order.
TopK top_k(Output x, int64_t k, Origin at = Origin::here());
struct SortOptions {
  int64_t axis = -1;
  bool descending = false;
};
Output sort(Output x, SortOptions options = {}, Origin at = Origin::here());
// The positions, i64, of the elements in the order of sort().
Output argsort(Output x, SortOptions options = {}, Origin at = Origin::here());
// x at indices, i32 or i64, along one axis; the other sizes of both are the same.
Output take_along(Output x, Output indices, int64_t axis = -1, Origin at = Origin::here());
// Adds dy, floats, into zeros in the shape of x_like, at the places that take_along read. Only the
// shape of x_like is used.
Output take_along_gradient(Output dy, Output indices, Output x_like, int64_t axis = -1,
                           Origin at = Origin::here());
// The positions, i64, at which `values` would be inserted into ascending lines: before equals, or
// after them if `right`. sorted [n] and values of any shape; or [..., n] and [..., m].
Output search_sorted(Output sorted, Output values, bool right = false, Origin at = Origin::here());
// True if fewer than k logits of a row are greater than that of its label: logits, floats, [...,
// classes], labels [...] i32 or i64 -> bool [...].
Output in_top_k(Output logits, Output labels, int64_t k, Origin at = Origin::here());

// ---- counts and segments ----

struct Unique {
  Output values, indices, counts;  // indices and counts are i64
};
// The distinct elements of x in the order of their first appearance; for each element of x its
// index among them; and the count of each. Their number depends on the values.
Unique unique(Output x, Origin at = Origin::here());
// The count of each number from 0 to length - 1 in x, i32 or i64: i64 [length]. length -1: up to
// the greatest number in x.
Output bincount(Output x, int64_t length = -1, Origin at = Origin::here());

// y[s] joins the rows of x, numbers except u8, whose id, i32 or i64 in [0, segments), is s;
// segments -1: up to the greatest id. x [n, ...] and ids [n] in ascending order -> [segments, ...].
// A segment without rows gives: sum 0, mean 0, product 1, maximum -infinity, minimum infinity
// (integers: the ends of their range).
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
// The numbers from 0 to n - 1, i64, in random order.
Output random_permutation(Graph& graph, int64_t n, int64_t seed = 0, std::string_view name = "",
                          Origin at = Origin::here());
// The rows of x, [n, ...], in random order.
Output shuffle(Output x, int64_t seed = 0, Origin at = Origin::here());
// 1 with probability p, floats in [0, 1], else 0, in p's dtype.
Output bernoulli(Output p, int64_t seed = 0, std::string_view name = "",
                 Origin at = Origin::here());
// Classes with the probabilities softmax(logits): floats [batch, classes] -> i64 [batch, count].
Output categorical(Output logits, int64_t count, int64_t seed = 0, std::string_view name = "",
                   Origin at = Origin::here());
// Samples of the gamma distribution with shape alpha, positive floats, and scale 1, in alpha's
// shape.
Output random_gamma(Output alpha, int64_t seed = 0, std::string_view name = "",
                    Origin at = Origin::here());

// Sampled classes for a loss (nce_loss, sampled_softmax_loss).
struct Candidates {
  Output ids;            // i64 [count]
  Output true_expected;  // the expected count of each class of true_ids among them
  Output expected;       // the same for ids, [count]
};
struct CandidateOptions {
  bool unique = true;  // each class once
  int64_t seed = 0;
};
// For classes numbered by falling frequency; true_ids are i32 or i64 in [0, classes), the expected
// counts f32 or f64.
Candidates log_uniform_candidates(Output true_ids, int64_t classes, int64_t count,
                                  CandidateOptions options = {}, DType dtype = DType::f32,
                                  Origin at = Origin::here());
// For classes with weights [classes], floats, to the power of `distortion`.
Candidates unigram_candidates(Output true_ids, Output weights, int64_t count,
                              CandidateOptions options = {}, double distortion = 1,
                              Origin at = Origin::here());

}  // namespace troupe
