// Free functions that add nodes to a graph, one for each op. Each op's own file in ops/ implements
// its function and says more.
//
// All throw Error(invalid_argument) for shapes or dtypes that do not fit; the message names node,
// op, the caller's line, the input types and what would be right. Element-wise functions broadcast
// as NumPy does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// An argument of an operator: an Output, or a number that becomes a constant of the other side's
// dtype. Its construction notes the caller's line, which an operator has no parameter for.
struct Operand {
  Operand(Output value, Origin at = Origin::here())
      : value(value), at(at) {}  // NOLINT: meant to convert
  Operand(double number, Origin at = Origin::here()) : number(number), at(at) {}  // NOLINT
  Output value;
  std::optional<double> number;
  Origin at;
};

// Sources
Output constant(Graph& graph, Tensor value, std::string_view name = "", Origin at = Origin::here());
Output placeholder(Graph& graph, DType dtype, Shape shape, std::string_view name = "",
                   Origin at = Origin::here());
// Reads a trained tensor from its shard. `initial` is computed once, before the first step; it may
// not depend on a placeholder. Asking again for the same name reads the same parameter (from the
// current device, for the current slot).
Output parameter(std::string_view name, Output initial, Origin at = Origin::here());
Output fill(Graph& graph, Shape shape, double value, DType dtype = DType::f32,
            std::string_view name = "", Origin at = Origin::here());
// Counter-based (Philox 4x32-10, Salmon et al. 2011), keyed by (seed, node name, training step,
// slot): the same bits for the same key anywhere. `random_uniform`: in [low, high).
Output random_uniform(Graph& graph, Shape shape, double low = 0, double high = 1, int64_t seed = 0,
                      DType dtype = DType::f32, std::string_view name = "",
                      Origin at = Origin::here());
// Normal, drawn again beyond two standard deviations.
Output truncated_normal(Graph& graph, Shape shape, double mean = 0, double stddev = 1,
                        int64_t seed = 0, DType dtype = DType::f32, std::string_view name = "",
                        Origin at = Origin::here());

// Element-wise
Output add(Output a, Output b, Origin at = Origin::here());
Output subtract(Output a, Output b, Origin at = Origin::here());
Output multiply(Output a, Output b, Origin at = Origin::here());
Output divide(Output a, Output b, Origin at = Origin::here());
Output maximum(Output a, Output b, Origin at = Origin::here());
Output negate(Output x, Origin at = Origin::here());
Output exp(Output x, Origin at = Origin::here());
Output log(Output x, Origin at = Origin::here());
Output sqrt(Output x, Origin at = Origin::here());
Output square(Output x, Origin at = Origin::here());
Output relu(Output x, Origin at = Origin::here());
Output tanh(Output x, Origin at = Origin::here());
Output sigmoid(Output x, Origin at = Origin::here());
Output equal(Output a, Output b, Origin at = Origin::here());    // bool
Output greater(Output a, Output b, Origin at = Origin::here());  // bool
Output where(Output condition, Output a, Output b,
             Origin at = Origin::here());  // condition is bool; all three broadcast
Output cast(Output x, DType dtype, Origin at = Origin::here());
Output identity(Output x, std::string_view name = "", Origin at = Origin::here());
Output stop_gradient(Output x, Origin at = Origin::here());  // x, and no gradient flows back
Output operator+(Operand a, Operand b);
Output operator-(Operand a, Operand b);
Output operator*(Operand a, Operand b);
Output operator/(Operand a, Operand b);
Output operator-(Operand x);

// Matrices and networks. Images are NHWC: [batch, height, width, channels]; filters are [height,
// width, in, out].
struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};
// [..., m, k] x [..., k, n] -> [..., m, n]; leading (batch) dimensions must agree, or one side has
// none.
Output matmul(Output a, Output b, MatmulOptions options = {}, Origin at = Origin::here());
Output bias_add(Output x, Output bias, Origin at = Origin::here());  // x [..., c], bias [c]
struct Conv2dOptions {
  int64_t stride = 1;
  bool same_padding =
      true;  // output size ceil(in / stride); else "valid": floor((in - k) / stride) + 1
};
Output conv2d(Output x, Output filter, Conv2dOptions options = {}, Origin at = Origin::here());
Output conv2d_input_gradient(Output dy, Output filter, Output x_like, Conv2dOptions options = {},
                             Origin at = Origin::here());
Output conv2d_filter_gradient(Output dy, Output x, Output filter_like, Conv2dOptions options = {},
                              Origin at = Origin::here());
struct PoolOptions {
  int64_t window = 2;
  int64_t stride = 2;
  bool same_padding = false;
};
Output max_pool2d(Output x, PoolOptions options = {}, Origin at = Origin::here());
Output max_pool2d_gradient(Output dy, Output x, PoolOptions options = {},
                           Origin at = Origin::here());  // first maximum wins
// The elements of `values`, which has x's shape, where max_pool2d(x) finds its maxima.
Output max_pool2d_select(Output values, Output x, PoolOptions options = {},
                         Origin at = Origin::here());
Output softmax(Output logits, Origin at = Origin::here());  // over the last dimension
// logits [batch, classes], labels [batch] i32 or i64 -> loss [batch]
Output softmax_cross_entropy(Output logits, Output labels, Origin at = Origin::here());
// dloss [batch] times (softmax(logits) - one_hot(labels))
Output softmax_cross_entropy_gradient(Output dloss, Output logits, Output labels,
                                      Origin at = Origin::here());
// Keeps an element with probability 1 - rate and divides it by that; keyed like the random ops.
Output dropout(Output x, double rate, int64_t seed = 0, Origin at = Origin::here());

// Shapes
Output reshape(Output x, Shape shape, Origin at = Origin::here());  // one size may be -1
Output reshape_like(Output x, Output like, Origin at = Origin::here());
Output transpose(Output x, std::vector<int64_t> permutation = {},
                 Origin at = Origin::here());  // {}: reverse the dimensions
Output concat(const std::vector<Output>& parts, int64_t axis, Origin at = Origin::here());
// dy cut where concat joined `parts`: one output like each of them.
std::vector<Output> concat_gradient(Output dy, const std::vector<Output>& parts, int64_t axis,
                                    Origin at = Origin::here());
std::vector<Output> split(Output x, int64_t parts, int64_t axis,
                          Origin at = Origin::here());  // equal parts
Output slice(Output x, std::vector<int64_t> begin, std::vector<int64_t> size,
             Origin at = Origin::here());  // size -1: to the end
Output slice_gradient(Output dy, Output x_like, std::vector<int64_t> begin,
                      std::vector<int64_t> size,
                      Origin at = Origin::here());  // zeros like x with dy where that slice was
Output gather(Output x, Output indices,
              Origin at = Origin::here());  // rows of x: [rows, ...] and [i...] -> [i..., ...]
Output gather_gradient(Output dy, Output indices, Output x_like,
                       Origin at = Origin::here());  // sums rows into zeros like x
Output one_hot(Output indices, int64_t depth, DType dtype = DType::f32,
               Origin at = Origin::here());  // adds a last dimension
Output broadcast_to(Output x, Shape shape, Origin at = Origin::here());
Output broadcast_like(Output x, Output like, Origin at = Origin::here());
Output sum_to_like(Output x, Output like,
                   Origin at = Origin::here());  // undoes a broadcast: sums x down to like's shape

// Reductions. `axes` {}: all. Negative axes count from the end.
struct ReduceOptions {
  std::vector<int64_t> axes = {};
  bool keep_dims = false;
};
Output reduce_sum(Output x, ReduceOptions options = {}, Origin at = Origin::here());
Output reduce_mean(Output x, ReduceOptions options = {}, Origin at = Origin::here());
Output reduce_max(Output x, ReduceOptions options = {}, Origin at = Origin::here());
// Spreads dy, the gradient of a reduce_sum (`mean`: reduce_mean) of x_like, over x_like's shape.
Output reduce_gradient(Output dy, Output x_like, ReduceOptions options = {}, bool mean = false,
                       Origin at = Origin::here());
Output argmax(Output x, int64_t axis = -1, Origin at = Origin::here());  // i64; the first of equals

// Order and state
Output check_finite(Output x, std::string_view what = "",
                    Origin at = Origin::here());  // x; fails the step for NaN or infinity
Output group(Graph& graph, const std::vector<Output>& outputs, std::string_view name = "",
             Origin at = Origin::here());  // done when all are
// Sends `gradient` to the shards of `parameter` (a Parameter node's output); has no output.
// minimize() adds these.
Output push_gradient(Output parameter, Output gradient, Origin at = Origin::here());
// f(inputs) whose gradient is what `backward(inputs, output, output gradient)` builds, whatever f's
// ops would give.
Output with_gradient(
    const std::vector<Output>& inputs, Output result,
    std::function<std::vector<Output>(const std::vector<Output>&, Output, Output)> backward,
    Origin at = Origin::here());

}  // namespace troupe
