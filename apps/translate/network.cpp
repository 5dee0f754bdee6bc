// The loss and the search of the two networks.
#include "apps/translate/network.hpp"

#include <algorithm>

#include "troupe/ops.hpp"

using namespace troupe;

void add_network_flags(Flags& flags, NetworkOptions& to) {
  flags.add("model", &to.model, "gru or transformer");
  flags.add("layers", &to.layers, "of the transformer's encoder, and of its decoder");
  flags.add("units", &to.units, "values of each token, and of each recurrent state");
  flags.add("heads", &to.heads, "of attention");
  flags.add("dropout", &to.dropout, "share of values that are left out in training");
}

void check(const NetworkOptions& given) {
  if (given.model != "gru" && given.model != "transformer")
    throw Error(Errc::invalid_argument, "--model is gru or transformer, got ", given.model);
  if (std::min({given.layers, given.units, given.heads}) < 1)
    throw Error(Errc::invalid_argument, "--layers, --units and --heads want at least 1");
  if (given.units % given.heads != 0)
    throw Error(Errc::invalid_argument, "--units wants a multiple of the ", given.heads,
                " heads, got ", given.units);
  if (!(given.dropout >= 0 && given.dropout < 1))
    throw Error(Errc::invalid_argument, "--dropout wants 0 to below 1, got ", given.dropout);
}

// Logits are made for tokens alone. The part of label smoothing, the mean of -log(probability) over
// all classes, is the cross entropy plus the label's logit less the mean logit, which needs no
// further logits: means commute with the last layer.
TranslationNetwork::Loss TranslationNetwork::loss(nn::Model& model, Output source, Output target,
                                                  double smoothing) const {
  const Layers layers = on(model);
  const bool recurrent = given_.model == "gru";
  const Memory memory =
      recurrent ? read_recurrent(layers, source) : read_transformer(layers, source);
  const Output next = slice(target, {0, 1}, {-1, -1});
  const Output mask = next != 0.0;
  const Output previous = strided_slice(target, {0, 0}, {0, -1}, {.begin_mask = 1, .end_mask = 1});
  const Output values = recurrent ? decode_recurrent(layers, memory, previous)
                                  : decode_transformer(layers, memory, previous);
  const Output x = boolean_mask(values, mask), labels = boolean_mask(next, mask);
  const Output losses = softmax_cross_entropy(layers.logits(x), labels);
  const Output count = cast(slice(shape_of(labels), {0}, {1}), DType::f32);
  const Output sum = reduce_sum(losses), tokens = reshape(count, {});
  if (smoothing == 0) return {sum, sum / tokens, tokens};
  const Output bias = model.parameter("bias", {tokens_}, nn::zeros());
  const Output directions = gather(layers.table(), labels) - reduce_mean(layers.table(), {0});
  const Output shifts = gather(bias, labels) - reduce_mean(bias);
  const Output extra = reduce_sum(x * directions) + reduce_sum(shifts);
  return {sum, (sum + extra * smoothing) / tokens, tokens};
}

nn::Beams TranslationNetwork::translate(nn::Model& model, Output source,
                                        const nn::BeamOptions& how) const {
  const Layers layers = on(model);
  return given_.model == "gru" ? search_recurrent(layers, read_recurrent(layers, source), how)
                               : search_transformer(layers, read_transformer(layers, source), how);
}
