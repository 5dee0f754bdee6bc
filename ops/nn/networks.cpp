// The functions of troupe/ops/networks.hpp and convolutions.hpp that are composed of other ops.
#include "ops/elementwise/composition.hpp"
#include "ops/gradients.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/regroup.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

// The dimensions of images x [b, ..., c] between the first and the last.
std::vector<int64_t> image_axes(const char* function, Origin at, Output x) {
  require_defined(function, at, {x});
  const int ndim = x.shape().ndim();
  if (ndim < 3 || ndim > 5)
    throw refused(function, at, "wants images [batch, ..., channels] with one to three dimensions ",
                  "between, got ", x.shape());
  std::vector<int64_t> axes;
  for (int d = 1; d + 1 < ndim; ++d) axes.push_back(d);
  return axes;
}

}  // namespace

// embedding_lookup: gathers rows of the table, then combines them over the last dimension of ids,
// of size k: their sum, mean, or sum / sqrt(k).
Output embedding_lookup(Output table, Output ids, Combiner combiner, Origin at) {
  require_defined("embedding_lookup", at, {table, ids});
  const Output rows = gather(table, ids, at);
  if (combiner == Combiner::none) return rows;
  const int axis = ids.shape().ndim() - 1;
  if (axis < 0)
    throw refused("embedding_lookup", at, "combines over the last dimension of ids, got a scalar");
  if (combiner == Combiner::mean) return reduce_mean(rows, {.axes = {axis}}, at);
  const Output sum = reduce_sum(rows, {.axes = {axis}}, at);
  if (combiner == Combiner::sum) return sum;
  // The size k may be known only in the step, so it is counted there.
  const auto scope = table.graph->scope({.origin = at});
  const Output ones = cast(equal(ids, ids), table.dtype());
  Output count = reduce_sum(ones, {.axes = {-1}});
  for (int d = 1; d < table.shape().ndim(); ++d) count = with_axis(count, -1);
  return divide(sum, sqrt(count));
}

// group_norm: x as [n, ..., groups, c / groups], normalised over all dimensions but n and groups.
Output group_norm(Output x, Output gamma, Output beta, int64_t groups, double epsilon, Origin at) {
  require_defined("group_norm", at, {x, gamma, beta});
  const int ndim = x.shape().ndim();
  if (ndim < 2) throw refused("group_norm", at, "wants x [n, ..., channels], got ", x.shape());
  if (groups < 1) throw refused("group_norm", at, "wants groups >= 1, got ", groups);
  for (const Output& one : {gamma, beta})
    if (one.shape().ndim() != 1 || !may_equal(one.shape()[0], x.shape()[ndim - 1]))
      throw refused("group_norm", at, "wants one gamma and one beta for each channel of ",
                    x.shape(), ", got ", gamma.shape(), " and ", beta.shape());
  const auto scope = x.graph->scope({.origin = at});
  std::string between;
  for (int d = 1; d + 1 < ndim; ++d) between += detail::concat("a", d, " ");
  const std::string parts = std::to_string(groups) + " c";
  const Output grouped =
      regroup(x, "n " + between + "(" + parts + ") -> n (" + between + ") " + parts);
  const ReduceOptions rest{.axes = {1, 3}, .keep_dims = true};
  const Output d = grouped - reduce_mean(grouped, rest);
  const Output z = d / sqrt(reduce_mean(square(d), rest) + epsilon);
  return bias_add(reshape_like(z, x) * gamma, beta);
}

// local_response_norm: y = x * e^(-beta * log(bias + alpha * s)).
Output local_response_norm(Output x, LocalResponseNormOptions options, Origin at) {
  require_defined("local_response_norm", at, {x});
  if (!(options.bias > 0) || !(options.alpha >= 0))
    throw refused("local_response_norm", at, "wants bias > 0 and alpha >= 0, got ", options.bias,
                  " and ", options.alpha);
  const auto scope = x.graph->scope({.origin = at});
  const Output divisor = window_sum(square(x), options.radius) * options.alpha + options.bias;
  if (options.beta == 0.5) return x / sqrt(divisor);
  return x * exp(log(divisor) * -options.beta);
}

Output global_average_pool(Output x, Origin at) {
  return reduce_mean(x, {.axes = image_axes("global_average_pool", at, x)}, at);
}

Output global_max_pool(Output x, Origin at) {
  return reduce_max(x, {.axes = image_axes("global_max_pool", at, x)}, at);
}

// instance_norm: (x - mean) / sqrt(variance + epsilon) over the dimensions between the first and
// the last.
Output instance_norm(Output x, Output gamma, Output beta, double epsilon, Origin at) {
  require_defined("instance_norm", at, {x, gamma, beta});
  const ReduceOptions images{.axes = image_axes("instance_norm", at, x), .keep_dims = true};
  const int ndim = x.shape().ndim();
  for (const Output& one : {gamma, beta})
    if (one.shape().ndim() != 1 || !may_equal(one.shape()[0], x.shape()[ndim - 1]))
      throw refused("instance_norm", at, "wants one gamma and one beta for each channel of ",
                    x.shape(), ", got ", gamma.shape(), " and ", beta.shape());
  const auto scope = x.graph->scope({.origin = at});
  const Output d = x - reduce_mean(x, images);
  return bias_add(d / sqrt(reduce_mean(square(d), images) + epsilon) * gamma, beta);
}

}  // namespace troupe
