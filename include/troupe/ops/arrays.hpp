// Ops that move, cut, join, pad, gather and scatter elements. Everything that troupe/ops.hpp says
// of its functions holds for these. Of `like`, `x_like` and the like only the shape is used; axes
// that are negative count from the end; indices are i32 or i64.
#pragma once

#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// ---- dimensions ----

// Leaves dimensions of size 1 out; {}: all of them, which takes sizes that are known.
Output squeeze(Output x, std::vector<int64_t> axes = {}, Origin at = Origin::here());
// One more dimension, of size 1, which is number `axis` of the result.
Output expand_dims(Output x, int64_t axis, Origin at = Origin::here());
// Equal shapes along a dimension that is new, number `axis` of the result.
Output stack(const std::vector<Output>& parts, int64_t axis = 0, Origin at = Origin::here());
// Undoes a stack: `count` parts, which must be said where the size along the axis is not known.
std::vector<Output> unstack(Output x, int64_t axis = 0, int64_t count = -1,
                            Origin at = Origin::here());
Output shape_of(Output x, Origin at = Origin::here());  // [number of dimensions], i64

// ---- copies ----

// Zeros or ones in the shape and dtype of x, of any dtype.
Output zeros_like(Output x, Origin at = Origin::here());
Output ones_like(Output x, Origin at = Origin::here());

// repeats[d] copies side by side along each dimension d.
Output tile(Output x, std::vector<int64_t> repeats, Origin at = Origin::here());
// Sums dy, of the shape of that tile, down to the shape of x_like.
Output tile_gradient(Output dy, Output x_like, std::vector<int64_t> repeats,
                     Origin at = Origin::here());
// Each slice along the axis `count` times in a row.
Output repeat(Output x, int64_t count, int64_t axis, Origin at = Origin::here());
// Sums dy, of the shape of that repeat, down to the shape of x_like.
Output repeat_gradient(Output dy, Output x_like, int64_t count, int64_t axis,
                       Origin at = Origin::here());

// ---- boxes, borders, order ----

// Bit i of a mask is about entry i of begin, end and strides.
struct StridedSliceOptions {
  std::vector<int64_t> strides = {};  // {}: all 1; below 0: backwards
  int64_t begin_mask = 0;             // from the start, whatever `begin` says
  int64_t end_mask = 0;               // to the end
  int64_t ellipsis_mask = 0;          // all dimensions that no other entry is for; at most one bit
  int64_t new_axis_mask = 0;          // a new dimension of size 1
  int64_t shrink_axis_mask = 0;       // the index `begin`, and no such dimension in the result
};
// x[begin:end:stride, ...] as in NumPy: negative begins and ends count from the end, and both are
// cut off at the ends.
Output strided_slice(Output x, std::vector<int64_t> begin, std::vector<int64_t> end,
                     StridedSliceOptions options = {}, Origin at = Origin::here());
// Zeros like x_like with dy where that slice was.
Output strided_slice_gradient(Output dy, Output x_like, std::vector<int64_t> begin,
                              std::vector<int64_t> end, StridedSliceOptions options = {},
                              Origin at = Origin::here());
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
// dy, floats, without its borders, which are added to what they show of x. Not of mode constant.
Output pad_gradient(Output dy, std::vector<int64_t> before, std::vector<int64_t> after,
                    PadMode mode, Origin at = Origin::here());
// In reverse order along the axes; {}: all.
Output reverse(Output x, std::vector<int64_t> axes = {}, Origin at = Origin::here());
Output flip_left_right(Output images,
                       Origin at = Origin::here());  // [..., height, width, channels]
// Moved by shifts[i] along axes[i]; what leaves at one end comes in at the other.
Output roll(Output x, std::vector<int64_t> shifts, std::vector<int64_t> axes,
            Origin at = Origin::here());
// The first lengths[b] slices along the sequence axis in reverse order, for each b along the batch
// axis.
Output reverse_sequence(Output x, Output lengths, int64_t sequence_axis, int64_t batch_axis = 0,
                        Origin at = Origin::here());
// Images [b, h * block, w * block, c] -> [b, h, w, block * block * c], and back.
Output space_to_depth(Output x, int64_t block, Origin at = Origin::here());
Output depth_to_space(Output x, int64_t block, Origin at = Origin::here());

// ---- slices by several coordinates ----
// indices [i..., k] name slices of x: those at x[indices[i..., 0], ..., indices[i..., k - 1]].
// updates are such slices: [i..., sizes of x from dimension k on].

// -> [i..., sizes of x from dimension k on]. `coordinates`: k, where the last size of indices is
// not known.
Output gather_nd(Output x, Output indices, int64_t coordinates = -1, Origin at = Origin::here());
// Adds updates, numbers, to zeros of that shape, in the order of the indices.
Output scatter_nd(Output indices, Output updates, Shape shape, Origin at = Origin::here());
// x, numbers, with updates added to, subtracted from its slices, in the order of the indices; with
// the greater, the lesser of both (NaN if either is NaN); x of any dtype with updates instead of
// its slices, of equal indices the last one's.
Output tensor_scatter_add(Output x, Output indices, Output updates, Origin at = Origin::here());
Output tensor_scatter_sub(Output x, Output indices, Output updates, Origin at = Origin::here());
Output tensor_scatter_max(Output x, Output indices, Output updates, Origin at = Origin::here());
Output tensor_scatter_min(Output x, Output indices, Output updates, Origin at = Origin::here());
Output tensor_scatter_update(Output x, Output indices, Output updates, Origin at = Origin::here());
// Slices of dy, 0 where a later index is the same.
Output tensor_scatter_update_gradient(Output dy, Output indices, Output updates_like,
                                      Origin at = Origin::here());

// ---- numbers in order ----

// start, start + delta, ... before limit: three scalars, numbers but u8. Its size is not known
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
// Vectors as coordinates of a grid: one value for each vector, all of the grid's shape.
std::vector<Output> meshgrid(const std::vector<Output>& axes, Indexing indexing = Indexing::xy,
                             Origin at = Origin::here());
// lengths [i...] -> [i..., size], which holds where j < lengths[i...]; size -1: the greatest
// length.
Output sequence_mask(Output lengths, int64_t size = -1, DType dtype = DType::boolean,
                     Origin at = Origin::here());
// y[x[i]] = i: x [n] has each index of [0, n) once.
Output invert_permutation(Output x, Origin at = Origin::here());

// ---- choices by value: sizes are not known before the step ----

// Indices, i64, of the elements that are not 0: [how many, number of dimensions of x].
Output nonzero(Output x, Origin at = Origin::here());
// x [m..., rest...] where the mask [m...], bool, holds: [how many, rest...].
Output boolean_mask(Output x, Output mask, Origin at = Origin::here());
// x [i..., rest...] by partitions [i...], each in [0, parts): outputs p [how many, rest...].
std::vector<Output> dynamic_partition(Output x, Output partitions, int64_t parts,
                                      Origin at = Origin::here());
// The slices of dys, one for each partition, where that took them from: the shape of x_like.
Output dynamic_partition_gradient(Output partitions, Output x_like, const std::vector<Output>& dys,
                                  Origin at = Origin::here());
// y[indices[m][i...], ...] = parts[m][i..., ...], of equal indices the last one; 0 elsewhere.
Output dynamic_stitch(const std::vector<Output>& indices, const std::vector<Output>& parts,
                      Origin at = Origin::here());
// What each part filled of dy: one output like each of them.
std::vector<Output> dynamic_stitch_gradient(Output dy, const std::vector<Output>& indices,
                                            const std::vector<Output>& parts_like,
                                            Origin at = Origin::here());

// ---- diagonals: of all matrices over the last two dimensions ----

Output diag(Output x, Origin at = Origin::here());       // [..., n] -> [..., n, n]
Output diag_part(Output x, Origin at = Origin::here());  // [..., m, n] -> [..., min(m, n)]
// Zeros like x_like with dy as diagonals.
Output diag_part_gradient(Output dy, Output x_like, Origin at = Origin::here());
// Zeros but for `lower` diagonals below the main one, that one, and `upper` above it; -1: all.
Output band_part(Output x, int64_t lower, int64_t upper, Origin at = Origin::here());
// Zeros above, below that diagonal: 0 is the main one, 1 the next one above.
Output tril(Output x, int64_t diagonal = 0, Origin at = Origin::here());
Output triu(Output x, int64_t diagonal = 0, Origin at = Origin::here());

}  // namespace troupe
