// Attention as a graph of ops, for dropout between its weights and values, for the gradient of a
// mask, and for second derivatives.
#include "ops/nn/attention.hpp"

namespace troupe {

Output AttentionByOps::factor() const {
  Graph& graph = *q.graph;
  const int64_t d = q.shape()[3];
  if (scale != 0 || d >= 0)
    return fill(graph, Shape{}, attention_scale(scale, d), q.dtype(), "scale");
  const auto number = [&](double value) { return fill(graph, Shape{}, value, DType::i64); };
  const Output size = gather(shape_of(q), number(3));
  return rsqrt(cast(maximum(size, number(1)), q.dtype()));
}

// In a row with a visible key, the greatest score alone gives 1, so the sum is at least 1. In a row
// without one the sum is 0, and the divisor becomes 0.5.
Output AttentionByOps::weights() const {
  Graph& graph = *q.graph;
  const auto number = [&](double value) { return fill(graph, Shape{}, value, q.dtype()); };
  Output scores = matmul(q, k, {.transpose_b = true}) * factor();
  if (mask.dtype() == DType::boolean)
    scores = where(mask, scores, number(-INFINITY));
  else
    scores = scores + mask;
  if (causal) {
    const Output lower = band_part(broadcast_like(number(1), scores), -1, 0);
    scores = where(greater(lower, number(0)), scores, number(-INFINITY));
  }
  const ReduceOptions keys{.axes = {-1}, .keep_dims = true};
  const Output greatest = maximum(reduce_max(scores, keys), number(-1e30));
  const Output powers = exp(scores - stop_gradient(greatest));
  return powers / maximum(reduce_sum(powers, keys), number(0.5));
}

}  // namespace troupe
