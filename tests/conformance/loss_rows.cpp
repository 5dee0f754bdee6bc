// Rows of ONNX's losses over classes in dimension 1, with class weights and ignored labels.
#include "tests/conformance/mapping.hpp"

namespace troupe {
namespace {

// The labels and their weights: the weight of the class, or 0 if the label is ignored.
struct Labels {
  Output classes;  // in range, also for ignored labels
  Output weights;  // shaped like `classes`
};

Labels labels_of(const NodeCall& c, Output like) {
  Output classes = c.input(1);
  Output counts = fill(c.graph, c.shape(classes), 1, like.dtype());
  if (c.has_attr("ignore_index")) {
    const auto ignored = static_cast<double>(c.integer("ignore_index", 0));
    const Output keep = not_equal(classes, number_like(classes, ignored));
    counts = cast(keep, like.dtype());
    classes = where(keep, classes, number_like(classes, 0));
  }
  if (c.has_input(2)) counts = counts * gather(c.input(2), classes);
  return {classes, counts};
}

// `losses` already carry the weights.
Output reduced(const NodeCall& c, Output losses, Output weights) {
  const std::string reduction = c.text("reduction", "mean");
  if (reduction == "none") return losses;
  if (reduction == "sum") return reduce_sum(losses);
  return reduce_sum(losses) / reduce_sum(weights);
}

std::vector<Output> nll_row(const NodeCall& c) {
  const Output x = channels_last(c.input(0));  // logarithms of probabilities
  const Labels labels = labels_of(c, x);
  const Output picked = take_along(x, expand_dims(labels.classes, -1));
  return {reduced(c, -squeeze(picked, {-1}) * labels.weights, labels.weights)};
}

std::vector<Output> softmax_cross_entropy_row(const NodeCall& c) {
  const Output x = channels_last(c.input(0));
  const Labels labels = labels_of(c, x);
  const Shape shape = c.shape(x);
  const Output logits = reshape(x, {-1, shape[shape.ndim() - 1]});
  const Output losses = reshape(softmax_cross_entropy(logits, reshape(labels.classes, {-1})),
                                c.shape(labels.classes));
  const Output log_probabilities = x - log_sum_exp(x, {.axes = {-1}, .keep_dims = true});
  return {reduced(c, losses * labels.weights, labels.weights), channels_first(log_probabilities)};
}

}  // namespace

std::vector<MappedOp> loss_rows() {
  return {
      {"NegativeLogLikelihoodLoss", "take_along, reduce_sum", nll_row},
      {"SoftmaxCrossEntropyLoss", "softmax_cross_entropy, log_sum_exp", softmax_cross_entropy_row},
  };
}

}  // namespace troupe
