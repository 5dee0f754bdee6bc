// Free functions that add nodes to a graph, here and in troupe/ops/: one for each op, whose file in
// ops/ implements it and gives its formula in full, and some that combine other ops.
//
// All throw Error(invalid_argument) for shapes or dtypes that do not fit; the message names node,
// op, the caller's line, the input types and what would be right. A mistake that only the values or
// sizes of a step can show, such as an index out of range, fails that step with the same kind of
// message.
//
// The inputs of one node have one dtype unless said otherwise, and so has its result. If nothing is
// said of dtypes, any will do; "numbers" are f32, f64, i32, i64 and u8, "floats" f32 and f64.
// Integers wrap around. Element-wise functions broadcast as NumPy does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/ops/arrays.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/ops/networks.hpp"
#include "troupe/ops/elementwise.hpp"
#include "troupe/ops/linear_algebra.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/ops/reductions.hpp"

namespace troupe {

// ---- sources ----
Output constant(Graph& graph, Tensor value, std::string_view name = "", Origin at = Origin::here());
// Must be fed whenever it is needed. Sizes of -1 in `shape` match any size.
Output placeholder(Graph& graph, DType dtype, Shape shape, std::string_view name = "",
                   Origin at = Origin::here());
// Reads a trained tensor from its shard. `initial` is computed once, before the first step; it may
// not depend on a placeholder or a parameter. A second call with the same name reads the same
// parameter (from the current device, for the current replica).
Output parameter(std::string_view name, Output initial, Origin at = Origin::here());
Output fill(Graph& graph, Shape shape, double value, DType dtype = DType::f32,
            std::string_view name = "", Origin at = Origin::here());
// Random numbers, f32 or f64. Counter-based (Philox 4x32-10, Salmon et al. 2011), keyed by (seed,
// node name, training step, replica): the same bits for the same key anywhere. Outside training the
// number of the run takes the place of the step, or RunOptions::seed (troupe/session.hpp).
// Uniform in [low, high).
Output random_uniform(Graph& graph, Shape shape, double low = 0, double high = 1, int64_t seed = 0,
                      DType dtype = DType::f32, std::string_view name = "",
                      Origin at = Origin::here());
// Normal; values beyond two standard deviations are drawn again.
Output truncated_normal(Graph& graph, Shape shape, double mean = 0, double stddev = 1,
                        int64_t seed = 0, DType dtype = DType::f32, std::string_view name = "",
                        Origin at = Origin::here());

// ---- element-wise ----
// An Operand is an Output, or a number beside one (troupe/ops/elementwise.hpp).
// For numbers. Division of an integer by zero fails the step; a quotient is truncated towards zero.
Output add(Operand a, Operand b, Origin at = Origin::here());
Output subtract(Operand a, Operand b, Origin at = Origin::here());
Output multiply(Operand a, Operand b, Origin at = Origin::here());
Output divide(Operand a, Operand b, Origin at = Origin::here());
Output maximum(Operand a, Operand b, Origin at = Origin::here());  // NaN if either is NaN
Output square(Output x, Origin at = Origin::here());
Output negate(Output x, Origin at = Origin::here());  // not of u8
Output relu(Output x, Origin at = Origin::here());    // max(x, 0); not of u8
// For floats.
Output exp(Output x, Origin at = Origin::here());
Output log(Output x, Origin at = Origin::here());  // natural
Output sqrt(Output x, Origin at = Origin::here());
Output tanh(Output x, Origin at = Origin::here());
Output sigmoid(Output x, Origin at = Origin::here());  // 1 / (1 + e^-x)
// For numbers, `equal` also for bool. The result is bool.
Output equal(Operand a, Operand b, Origin at = Origin::here());
Output greater(Operand a, Operand b, Origin at = Origin::here());
// a where the bool condition is true, else b; all three broadcast. One of a and b may be a number.
Output where(Output condition, Operand a, Operand b, Origin at = Origin::here());
// From any dtype to any: floats become integers by truncation towards zero, limited to the range of
// the dtype; to bool: x != 0. A gradient passes between floats only.
Output cast(Output x, DType dtype, Origin at = Origin::here());
Output identity(Output x, std::string_view name = "", Origin at = Origin::here());
Output stop_gradient(Output x, Origin at = Origin::here());  // x, and no gradient flows back

// ---- matrices and networks ----
// For floats unless said otherwise. Images are NHWC, [batch, height, width, channels]; filters are
// [height, width, in, out].

struct MatmulOptions {
  bool transpose_a = false;  // a is [..., k, m]
  bool transpose_b = false;  // b is [..., n, k]
};
// [..., m, k] x [..., k, n] -> [..., m, n]; leading (batch) dimensions broadcast as in element-wise
// ops. Also for i32 and i64.
Output matmul(Output a, Output b, MatmulOptions options = {}, Origin at = Origin::here());
// x [..., c] plus bias [c] in every row. Also for i32 and i64.
Output bias_add(Output x, Output bias, Origin at = Origin::here());
// The positions of a window of size k: with same_padding ceil(in / stride) of them, the zeros
// around the image split evenly, an odd one at the end; otherwise floor((in - k) / stride) + 1.
struct Conv2dOptions {
  int64_t stride = 1;
  bool same_padding = true;
};
// x [b, h, w, in], filter [kh, kw, in, out] -> [b, h', w', out].
Output conv2d(Output x, Output filter, Conv2dOptions options = {}, Origin at = Origin::here());
struct PoolOptions {
  int64_t window = 2;
  int64_t stride = 2;
  bool same_padding = false;  // as in Conv2dOptions; padding never wins
};
// The maximum of each window: x [b, h, w, c] -> [b, h', w', c].
Output max_pool2d(Output x, PoolOptions options = {}, Origin at = Origin::here());
Output softmax(Output logits, Origin at = Origin::here());  // over the last dimension
// -log(softmax(logits)[i, labels[i]]) of each row i: logits [..., classes], labels [...] i32 or i64
// in [0, classes) -> loss [...].
Output softmax_cross_entropy(Output logits, Output labels, Origin at = Origin::here());
// Keeps an element with probability 1 - rate, rate in [0, 1), and divides it by 1 - rate
// (Srivastava et al. 2014); keyed like the random numbers.
Output dropout(Output x, double rate, int64_t seed = 0, Origin at = Origin::here());

// ---- shapes ----
// Only the shapes of `like` and `x_like` are used.

Output reshape(Output x, Shape shape, Origin at = Origin::here());  // one size may be -1
Output reshape_like(Output x, Output like, Origin at = Origin::here());
// Dimension i of the result is dimension permutation[i] of x; {}: reverses the dimensions.
Output transpose(Output x, std::vector<int64_t> permutation = {}, Origin at = Origin::here());
// Negative axes count from the end.
Output concat(const std::vector<Output>& parts, int64_t axis, Origin at = Origin::here());
// Equal parts, so `parts` must divide the size.
std::vector<Output> split(Output x, int64_t parts, int64_t axis, Origin at = Origin::here());
// x[begin[d], begin[d] + size[d]) in each dimension d; size -1: to the end.
Output slice(Output x, std::vector<int64_t> begin, std::vector<int64_t> size,
             Origin at = Origin::here());
// Rows of x: [rows, ...] by indices [i...], i32 or i64 in [0, rows) -> [i..., ...].
Output gather(Output x, Output indices, Origin at = Origin::here());
// indices [i...], i32 or i64 in [0, depth) -> [i..., depth].
Output one_hot(Output indices, int64_t depth, DType dtype = DType::f32, Origin at = Origin::here());
Output broadcast_to(Output x, Shape shape, Origin at = Origin::here());
Output broadcast_like(Output x, Output like, Origin at = Origin::here());
// Undoes a broadcast: sums x down to the shape of `like`. Not for u8 and bool.
Output sum_to_like(Output x, Output like, Origin at = Origin::here());

// ---- reductions ----
// ReduceOptions, which choose the axes, are in troupe/ops/reductions.hpp.

// For numbers except u8.
Output reduce_sum(Output x, ReduceOptions options = {}, Origin at = Origin::here());
// For floats; the mean of no elements is NaN.
Output reduce_mean(Output x, ReduceOptions options = {}, Origin at = Origin::here());
// For numbers; refuses an empty reduction. All elements that equal the maximum share the gradient.
Output reduce_max(Output x, ReduceOptions options = {}, Origin at = Origin::here());
template <AxisNumber Number, size_t n>
Output reduce_sum(Output x, const Number (&axes)[n], Origin at = Origin::here()) {
  return reduce_sum(x, ReduceOptions{{axes, axes + n}}, at);
}
template <AxisNumber Number, size_t n>
Output reduce_mean(Output x, const Number (&axes)[n], Origin at = Origin::here()) {
  return reduce_mean(x, ReduceOptions{{axes, axes + n}}, at);
}
template <AxisNumber Number, size_t n>
Output reduce_max(Output x, const Number (&axes)[n], Origin at = Origin::here()) {
  return reduce_max(x, ReduceOptions{{axes, axes + n}}, at);
}
// The index, i64, of the maximum along the axis; of equals the first.
Output argmax(Output x, int64_t axis = -1, Origin at = Origin::here());

// ---- order and state ----
// x, floats; fails the step with Errc::bad_data for NaN or infinity, and calls the value `what`.
Output check_finite(Output x, std::string_view what = "", Origin at = Origin::here());
// Done when all outputs are done; has no output itself.
Output group(Graph& graph, const std::vector<Output>& outputs, std::string_view name = "",
             Origin at = Origin::here());
// Sends `gradient` to the shards of `parameter` (a Parameter node's output); has no output.
// minimize() adds these.
Output push_gradient(Output parameter, Output gradient, Origin at = Origin::here());
// The value f(inputs) = `result`, with the gradient that `backward(inputs, output, output
// gradient)` builds in place of the gradient of f's ops.
Output with_gradient(
    const std::vector<Output>& inputs, Output result,
    std::function<std::vector<Output>(const std::vector<Output>&, Output, Output)> backward,
    Origin at = Origin::here());

}  // namespace troupe
