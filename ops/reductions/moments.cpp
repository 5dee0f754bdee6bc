// moments: mean and variance of x over axes, composed of other ops. Reads x twice: the variance is
// the mean of (x - mean)^2, which keeps its precision if the mean is large. The divisor is n, the
// number of elements. Empty x gives NaN.
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {

Moments moments(Output x, ReduceOptions options, Origin at) {
  const Output mean = reduce_mean(x, {.axes = options.axes, .keep_dims = true}, at);
  const Output variance = reduce_mean(squared_difference(x, mean, at), options, at);
  if (options.keep_dims) return {mean, variance};
  return {reshape_like(mean, variance, at), variance};
}

}  // namespace troupe
