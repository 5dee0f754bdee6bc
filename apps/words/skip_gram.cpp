// The loss of pairs: -log sigmoid(v c), and for negative samples n -log sigmoid(-v n).
#include "apps/words/skip_gram.hpp"

#include "troupe/ops.hpp"

using namespace troupe;

namespace {

constexpr double kDistortion = 0.75;  // negatives by count ^ 0.75 (Mikolov et al. 2013, 2.2)
// Pairs are filled up to a multiple of it: a product is compiled for each size that it comes in,
// and batches have any number of pairs.
constexpr int64_t kUnit = 32;

}  // namespace

Output SkipGram::vectors(nn::Model& model) const {
  const double reach = 0.5 / static_cast<double>(dim);
  const auto scope = model.layer("words", "embedding");
  return model.parameter("w", {words, dim}, nn::uniform(-reach, reach));
}

SkipGram::Loss SkipGram::loss(nn::Model& model, Output centre, Output context) const {
  Graph& graph = model.graph();
  const Output table = vectors(model);
  const auto scope = model.layer("near", "embedding");
  const Output near = model.parameter("w", {words, dim}, nn::zeros());

  const auto number = [&](int64_t n) { return constant(graph, Tensor::scalar<int64_t>(n)); };
  const Output size = gather(shape_of(centre), number(0));
  const Output places = range(number(0), (size + (kUnit - 1)) / kUnit * kUnit, number(1));
  const Output at = minimum(places, size - 1);  // the last pair fills up
  const Output counts_as = cast(less(places, size), DType::f32);

  const Output weights = cast(
      constant(graph, Tensor::of<int64_t>(std::span<const int64_t>(counts), {words})), DType::f32);
  const Output samples =
      unigram_candidates(context, weights, drawn, {.unique = false, .seed = seed}, kDistortion).ids;
  const Output v = gather(table, gather(centre, at));
  const Output pairs = reduce_sum(v * gather(near, gather(context, at)), {.axes = {1}});
  const Output others = matmul(v, gather(near, samples), {.transpose_b = true});
  const double share = static_cast<double>(negatives) / static_cast<double>(drawn);
  const Output sum = reduce_sum(
      counts_as * (softplus(-pairs) + share * reduce_sum(softplus(others), {.axes = {1}})));
  return {sum, sum / cast(maximum(size, 1), DType::f32)};
}

Evaluation SkipGram::evaluation(nn::Model& model) const {
  const Output centre = placeholder(model.graph(), DType::i64, {-1}),
               context = placeholder(model.graph(), DType::i64, {-1});
  return {.feeds = {centre, context},
          .fetches = {loss(model, centre, context).mean},
          .metrics = {metric(
              "loss", MeanMetric(),
              [](MeanMetric& m, const std::vector<Tensor>& values, const Batch& batch) {
                m.add(values[0].item<float>(), static_cast<double>(batch.features.size()));
              },
              [](const MeanMetric& m) { return m.value(); }, false)}};
}
