// Ops that move, cut, join, pad, gather and scatter elements. The conventions of troupe/ops.hpp
// hold for these functions. Only the shapes of `like`, `x_like` and the like are used; negative
// axes count from the end; indices are i32 or i64.
#pragma once

#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// ---- dimensions ----

// Removes dimensions of size 1; {}: all of them, for which sizes must be known.
Output squeeze(Output x, std::vector<int64_t> axes = {}, Origin at = Origin::here());
// Adds a dimension of size 1, as number `axis` of the result.
Output expand_dims(Output x, int64_t axis, Origin at = Origin::here());
// Joins equal shapes along a new dimension, number `axis` of the result.
Output stack(const std::vector<Output>& parts, int64_t axis = 0, Origin at = Origin::here());
// Undoes a stack: `count` parts, which must be given if the size along the axis is unknown.
std::vector<Output> unstack(Output x, int64_t axis = 0, int64_t count = -1,
                            Origin at = Origin::here());
Output shape_of(Output x, Origin at = Origin::here());  // [number of dimensions], i64

// ---- copies ----

// Zeros or ones in the shape and dtype of x, for any dtype.
Output zeros_like(Output x, Origin at = Origin::here());
Output ones_like(Output x, Origin at = Origin::here());

// repeats[d] copies side by side along each dimension d.
Output tile(Output x, std::vector<int64_t> repeats, Origin at = Origin::here());
// Repeats each slice along the axis `count` times in a row.
Output repeat(Output x, int64_t count, int64_t axis, Origin at = Origin::here());

// ---- boxes, borders, order ----

// Bit i of a mask is for entry i of begin, end and strides.
struct StridedSliceOptions {
  std::vector<int64_t> strides = {};  // {}: all 1; negative: backwards
  int64_t begin_mask = 0;             // from the start, whatever `begin` says
  int64_t end_mask = 0;               // to the end
  int64_t ellipsis_mask = 0;          // all dimensions that have no other entry; at most one bit
  int64_t new_axis_mask = 0;          // a new dimension of size 1
  int64_t shrink_axis_mask = 0;       // the single index `begin`; the result lacks the dimension
};
// x[begin:end:stride, ...] as in NumPy: negative begins and ends count from the end, and both are
// clamped to the ends.
Output strided_slice(Output x, std::vector<int64_t> begin, std::vector<int64_t> end,
                     StridedSliceOptions options = {}, Origin at = Origin::here());
enum class PadMode : uint8_t {
  constant,   // 0 0 | 1 2 3 | 0 0, with PadOptions::value for 0
  reflect,    // 3 2 | 1 2 3 | 2 1; a border is smaller than x
  symmetric,  // 2 1 | 1 2 3 | 3 2; a border is at most as large as x
  edge        // 1 1 | 1 2 3 | 3 3
};
struct PadOptions {
  PadMode mode = PadMode::constant;
  double value = 0;
};
// A border of before[d] and after[d] elements around x in each dimension d.
Output pad(Output x, std::vector<int64_t> before, std::vector<int64_t> after,
           PadOptions options = {}, Origin at = Origin::here());
// Reverses the order along the axes; {}: all.
Output reverse(Output x, std::vector<int64_t> axes = {}, Origin at = Origin::here());
Output flip_left_right(Output images,
                       Origin at = Origin::here());  // [..., height, width, channels]
// Moves elements by shifts[i] along axes[i]; those that leave at one end enter at the other.
Output roll(Output x, std::vector<int64_t> shifts, std::vector<int64_t> axes,
            Origin at = Origin::here());
// Reverses the first lengths[b] slices along the sequence axis, for each b along the batch axis.
Output reverse_sequence(Output x, Output lengths, int64_t sequence_axis, int64_t batch_axis = 0,
                        Origin at = Origin::here());
// Images [b, h * block, w * block, c] -> [b, h, w, block * block * c], and back.
Output space_to_depth(Output x, int64_t block, Origin at = Origin::here());
Output depth_to_space(Output x, int64_t block, Origin at = Origin::here());

// ---- slices by several coordinates ----
// indices [i..., k] name slices of x: x[indices[i..., 0], ..., indices[i..., k - 1]]. updates are
// such slices: [i..., sizes of x from dimension k on].

// -> [i..., sizes of x from dimension k on]. `coordinates`: k, needed if the last size of indices
// is unknown.
Output gather_nd(Output x, Output indices, int64_t coordinates = -1, Origin at = Origin::here());
// Adds updates, numbers, to zeros of that shape, in the order of the indices.
Output scatter_nd(Output indices, Output updates, Shape shape, Origin at = Origin::here());
// x with its slices combined with updates in the order of the indices: for numbers, added,
// subtracted, the greater, the lesser of both (NaN if either is NaN); for any dtype, replaced, by
// the last update of equal indices.
Output tensor_scatter_add(Output x, Output indices, Output updates, Origin at = Origin::here());
Output tensor_scatter_sub(Output x, Output indices, Output updates, Origin at = Origin::here());
Output tensor_scatter_max(Output x, Output indices, Output updates, Origin at = Origin::here());
Output tensor_scatter_min(Output x, Output indices, Output updates, Origin at = Origin::here());
Output tensor_scatter_update(Output x, Output indices, Output updates, Origin at = Origin::here());

// ---- numbers in order ----

// start, start + delta, ... before limit: three scalars, numbers except u8. Its size is unknown
// before the step.
Output range(Output start, Output limit, Output delta, Origin at = Origin::here());
Output range(Graph& graph, double start, double limit, double delta = 1, DType dtype = DType::i32,
             Origin at = Origin::here());  // of known size
// `count` floats at equal distances from start to stop, both included; two scalars.
Output linspace(Output start, Output stop, int64_t count, Origin at = Origin::here());
// Ones on the diagonal, zeros elsewhere: [rows, columns]; -1: as many columns as rows.
Output eye(Graph& graph, int64_t rows, int64_t columns = -1, DType dtype = DType::f32,
           Origin at = Origin::here());
enum class Indexing : uint8_t {
  ij,  // dimension i of the grids is along vector i
  xy   // the same, but the first vector is along dimension 1, the second along dimension 0
};
// Vectors as coordinates of a grid: one value for each vector, each of the grid's shape.
std::vector<Output> meshgrid(const std::vector<Output>& axes, Indexing indexing = Indexing::xy,
                             Origin at = Origin::here());
// lengths [i...] -> [i..., size], true where j < lengths[i...]; size -1: the greatest length.
Output sequence_mask(Output lengths, int64_t size = -1, DType dtype = DType::boolean,
                     Origin at = Origin::here());
// y[x[i]] = i: x [n] has each index of [0, n) once.
Output invert_permutation(Output x, Origin at = Origin::here());

// ---- choices by value: sizes are unknown before the step ----

// Indices, i64, of the elements that are not 0: [how many, number of dimensions of x].
Output nonzero(Output x, Origin at = Origin::here());
// x [m..., rest...] where the mask [m...], bool, is true: [how many, rest...].
Output boolean_mask(Output x, Output mask, Origin at = Origin::here());
// x [i..., rest...] by partitions [i...], each in [0, parts): outputs p [how many, rest...].
std::vector<Output> dynamic_partition(Output x, Output partitions, int64_t parts,
                                      Origin at = Origin::here());
// y[indices[m][i...], ...] = parts[m][i..., ...], the last one of equal indices; 0 elsewhere.
Output dynamic_stitch(const std::vector<Output>& indices, const std::vector<Output>& parts,
                      Origin at = Origin::here());

// ---- diagonals: of all matrices over the last two dimensions ----

Output diag(Output x, Origin at = Origin::here());       // [..., n] -> [..., n, n]
Output diag_part(Output x, Origin at = Origin::here());  // [..., m, n] -> [..., min(m, n)]
// Zeros except for `lower` diagonals below the main one, that one, and `upper` above it; -1: all.
Output band_part(Output x, int64_t lower, int64_t upper, Origin at = Origin::here());
// Zeros above (tril) or below (triu) that diagonal: 0 is the main one, 1 the next one above.
Output tril(Output x, int64_t diagonal = 0, Origin at = Origin::here());
Output triu(Output x, int64_t diagonal = 0, Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// Functions along an axis of choice, made of ops that work along the first or the last one. The
// conventions of troupe/ops.hpp hold for these functions; negative axes count from the end.
// Implemented in ops/indexing/along_axis.cpp.

// e^x / the sum of e^x over the axis, for floats; and its logarithm, which is finite wherever x is.
Output softmax(Output x, int64_t axis, Origin at = Origin::here());
Output log_softmax(Output x, int64_t axis = -1, Origin at = Origin::here());
// The slices of x along the axis by indices [i...], i32 or i64 in [0, size of the axis) -> [sizes
// before the axis..., i..., sizes after it...]. Along axis 0 its gradient is by rows.
Output gather(Output x, Output indices, int64_t axis, Origin at = Origin::here());
// Parts of these sizes, one after the other along the axis; one size may be -1: the rest. The sizes
// must add up to that of the axis.
std::vector<Output> split_sizes(Output x, std::vector<int64_t> sizes, int64_t axis,
                                Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// Sorting, counting, segments, and random samples besides those of troupe/ops.hpp. The conventions
// of troupe/ops.hpp hold for these functions.

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
