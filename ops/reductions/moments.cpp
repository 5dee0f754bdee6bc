// moments: mean and variance of x over axes, made of other ops, in two passes: the variance is the
// mean of (x - mean)^2, which loses nothing when the mean is large. Of n elements it is divided by
// n. NaN for those of nothing.
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
