// Functions of the ops that gradients are made of; most are the backward half of the function whose
// name they begin with. Only the shapes of `like`, `x_like` and the like are used.
#pragma once

#include <vector>

#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// dL/d(output i), or zeros if no y depends on that output.
inline Output output_gradient_or_zeros(const GradientContext& ctx, int i, Output like) {
  const Output gradient = ctx.output_gradient(i);
  return gradient.defined() ? gradient : zeros_like(like);
}

// ---- images ----

// dL/dx and dL/dfilter of y = conv2d(x, filter), from dy = dL/dy.
Output conv2d_input_gradient(Output dy, Output filter, Output x_like, Conv2dOptions options = {},
                             Origin at = Origin::here());
Output conv2d_filter_gradient(Output dy, Output x, Output filter_like, Conv2dOptions options = {},
                              Origin at = Origin::here());
// dL/dx of y = max_pool2d(x), from dy = dL/dy, which goes to the first maximum of each window.
Output max_pool2d_gradient(Output dy, Output x, PoolOptions options = {},
                           Origin at = Origin::here());
// The elements of `values`, which has x's shape, at the positions of the maxima of max_pool2d(x).
Output max_pool2d_select(Output values, Output x, PoolOptions options = {},
                         Origin at = Origin::here());
// The sum of x over the existing channels among j - radius to j + radius. Also for i32 and i64.
Output window_sum(Output x, int64_t radius, Origin at = Origin::here());
// dL/dx and dL/dfilter of y = convolution(x, filter), from dy = dL/dy.
Output convolution_input_gradient(Output dy, Output filter, Output x_like,
                                  ConvolutionOptions options = {}, Origin at = Origin::here());
Output convolution_filter_gradient(Output dy, Output x, Output filter_like,
                                   ConvolutionOptions options = {}, Origin at = Origin::here());
// dL/dx of y = max_pool(x), from dy = dL/dy, which goes to the first maximum of each window.
Output max_pool_gradient(Output dy, Output x, PoolWindow window = {}, Origin at = Origin::here());
// The elements of `values`, which has x's shape, at the positions of the maxima of max_pool(x).
Output max_pool_select(Output values, Output x, PoolWindow window = {}, Origin at = Origin::here());
// dL/dx of y = average_pool(x), from dy = dL/dy.
Output average_pool_gradient(Output dy, Output x_like, PoolWindow window = {},
                             Origin at = Origin::here());

// ---- networks ----

// dloss [...] times (softmax(logits) - one_hot(labels)).
Output softmax_cross_entropy_gradient(Output dloss, Output logits, Output labels,
                                      Origin at = Origin::here());
// dL/dx, dL/dgamma and dL/dbeta of layer_norm, from dy = dL/dy.
struct NormGradient {
  Output dx, dgamma, dbeta;
};
NormGradient layer_norm_gradient(Output dy, Output x, Output gamma, double epsilon = 1e-5,
                                 Origin at = Origin::here());
// dL/dx and dL/dgamma of rms_norm; dbeta is undefined.
NormGradient rms_norm_gradient(Output dy, Output x, Output gamma, double epsilon = 1e-6,
                               Origin at = Origin::here());
// dL/dx, dL/dgamma and dL/dbeta of batch_norm's y, for its mean and variance.
NormGradient batch_norm_gradient(Output dy, Output x, Output gamma, Output mean, Output variance,
                                 double epsilon = 1e-5, Origin at = Origin::here());
// dL/d(logits) from dloss [batch].
Output ctc_loss_gradient(Output dloss, Output logits, Output labels, Output time_sizes,
                         Output label_sizes, int64_t blank = 0, Origin at = Origin::here());

// ---- arrays ----

// dy cut where concat joined `parts`: one output for each part, of its shape.
std::vector<Output> concat_gradient(Output dy, const std::vector<Output>& parts, int64_t axis,
                                    Origin at = Origin::here());
// Zeros in the shape of x_like, with dy at the place of that slice.
Output slice_gradient(Output dy, Output x_like, std::vector<int64_t> begin,
                      std::vector<int64_t> size, Origin at = Origin::here());
// Adds the rows of dy, floats, one after the other into zeros in the shape of x_like.
Output gather_gradient(Output dy, Output indices, Output x_like, Origin at = Origin::here());
// Sums dy, of the shape of that tile, down to the shape of x_like.
Output tile_gradient(Output dy, Output x_like, std::vector<int64_t> repeats,
                     Origin at = Origin::here());
// Sums dy, of the shape of that repeat, down to the shape of x_like.
Output repeat_gradient(Output dy, Output x_like, int64_t count, int64_t axis,
                       Origin at = Origin::here());
// Zeros in the shape of x_like, with dy at the place of that slice.
Output strided_slice_gradient(Output dy, Output x_like, std::vector<int64_t> begin,
                              std::vector<int64_t> end, StridedSliceOptions options = {},
                              Origin at = Origin::here());
// dy, floats, without its borders, which are added to the elements of x that they show. Not for
// mode constant.
Output pad_gradient(Output dy, std::vector<int64_t> before, std::vector<int64_t> after,
                    PadMode mode, Origin at = Origin::here());
// Slices of dy; 0 where a later index is the same.
Output tensor_scatter_update_gradient(Output dy, Output indices, Output updates_like,
                                      Origin at = Origin::here());
// The slices of dys, one for each partition, at their places in x: the shape of x_like.
Output dynamic_partition_gradient(Output partitions, Output x_like, const std::vector<Output>& dys,
                                  Origin at = Origin::here());
// The elements of dy that each part filled: one output for each part, of its shape.
std::vector<Output> dynamic_stitch_gradient(Output dy, const std::vector<Output>& indices,
                                            const std::vector<Output>& parts_like,
                                            Origin at = Origin::here());
// Adds dy, floats, into zeros in the shape of x_like, at the places that take_along read.
Output take_along_gradient(Output dy, Output indices, Output x_like, int64_t axis = -1,
                           Origin at = Origin::here());

// ---- reductions and scans ----

// Broadcasts dy, the gradient of a reduce_sum (`mean`: reduce_mean) of x_like, over x_like's shape.
Output reduce_gradient(Output dy, Output x_like, ReduceOptions options = {}, bool mean = false,
                       Origin at = Origin::here());
// y[0] = 0, y[i] = u[i - 1] + w[i - 1] * y[i - 1] along the axis; u and w have one shape. For
// floats.
Output linear_recurrence(Output u, Output w, int64_t axis = -1, bool reverse = false,
                         Origin at = Origin::here());

// ---- diagonals ----

// Zeros in the shape of x_like, with dy as diagonals.
Output diag_part_gradient(Output dy, Output x_like, Origin at = Origin::here());
// Zeros in the shape of x_like, with dy at the place of that diagonal.
Output diagonal_gradient(Output dy, Output x_like, DiagonalOptions options = {},
                         Origin at = Origin::here());

}  // namespace troupe
