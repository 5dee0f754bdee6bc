// Losses composed of other ops; include/troupe/ops/networks.hpp gives their formulas.
#include "ops/nn/losses.hpp"

namespace troupe {
namespace {

// sqrt(sum of x^2), but at least 1e-8; there its gradient is 0.
Output norm(Output x, const ReduceOptions& options) {
  const Output sum = reduce_sum(square(x), options);
  return sqrt(maximum(sum, constant_like(1e-16, sum)));
}

}  // namespace

Output mean_squared_error(Output predictions, Output labels, Origin at) {
  const auto scope = loss_scope(predictions, "mean_squared_error", at);
  require_fitting(predictions, labels, "mean_squared_error", at);
  return reduce_mean(square(subtract(predictions, labels)));
}

Output mean_absolute_error(Output predictions, Output labels, Origin at) {
  const auto scope = loss_scope(predictions, "mean_absolute_error", at);
  require_fitting(predictions, labels, "mean_absolute_error", at);
  return reduce_mean(abs(subtract(predictions, labels)));
}

// With c = min(d, delta): c^2 / 2 + delta * (d - c).
Output huber_loss(Output predictions, Output labels, double delta, Origin at) {
  const auto scope = loss_scope(predictions, "huber_loss", at);
  require_fitting(predictions, labels, "huber_loss", at);
  if (!(delta > 0))
    throw Error(Errc::invalid_argument, "huber_loss made at ", at.file, ":", at.line,
                ": wants a delta above 0, got ", delta);
  const Output d = abs(subtract(predictions, labels));
  const Output c = negate(maximum(negate(d), constant_like(-delta, d)));
  return square(c) * 0.5 + (d - c) * delta;
}

Output hinge_loss(Output logits, Output labels, Origin at) {
  const auto scope = loss_scope(logits, "hinge_loss", at);
  require_fitting(logits, labels, "hinge_loss", at);
  return relu(1 - logits * labels);
}

Output log_loss(Output predictions, Output labels, double epsilon, Origin at) {
  const auto scope = loss_scope(predictions, "log_loss", at);
  require_fitting(predictions, labels, "log_loss", at);
  const Output p = predictions, z = labels;
  return -(z * log(p + epsilon) + (1 - z) * log(1 - p + epsilon));
}

// Where p is 0, both p and q are replaced by 1, so that neither value nor gradient contains log(0).
Output kl_divergence(Output p, Output q, Origin at) {
  const auto scope = loss_scope(p, "kl_divergence", at);
  const Output nothing = equal(p, constant_like(0, p)), one = constant_like(1, p);
  const Output ratio = subtract(log(where(nothing, one, p)), log(where(nothing, one, q)));
  return reduce_sum(multiply(p, ratio), {.axes = {-1}});
}

Output cosine_similarity(Output a, Output b, int64_t axis, Origin at) {
  const auto scope = loss_scope(a, "cosine_similarity", at);
  const ReduceOptions options = {.axes = {axis}};
  return reduce_sum(multiply(a, b), options) / multiply(norm(a, options), norm(b, options));
}

// With s = the sum of all probabilities of a row, e = the smoothing and l = log(sum of e^x), the
// loss -sum(z * (x - l)) is l * ((1 - e) * s + e) - (1 - e) * sum(probabilities * x) - e * mean(x).
// The greatest x is subtracted from x first.
Output softmax_cross_entropy_with_probabilities(Output logits, Output probabilities,
                                                double label_smoothing, Origin at) {
  const auto scope = loss_scope(logits, "softmax_cross_entropy_with_probabilities", at);
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    throw refused("softmax_cross_entropy_with_probabilities", at,
                  "wants a label_smoothing in [0, 1], got ", label_smoothing);
  const ReduceOptions rows = {.axes = {-1}};
  const Output greatest = stop_gradient(reduce_max(logits, {.axes = {-1}, .keep_dims = true}));
  const Output x = subtract(logits, greatest);
  const Output l = log(reduce_sum(exp(x), rows));
  const Output said = reduce_sum(multiply(probabilities, x), rows);
  const Output s = reduce_sum(probabilities, rows);
  if (label_smoothing == 0) return l * s - said;
  const double e = label_smoothing;
  return l * (s * (1 - e) + e) - said * (1 - e) - reduce_mean(x, rows) * e;
}

}  // namespace troupe
