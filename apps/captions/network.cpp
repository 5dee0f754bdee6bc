// Layers of the encoder and the decoder, and the loops of the decoder.
#include "apps/captions/network.hpp"

#include <array>
#include <cmath>

#include "apps/captions/sentences.hpp"
#include "troupe/ops.hpp"

using namespace troupe;

namespace {

int64_t word_count() { return static_cast<int64_t>(words().size()); }

// One decoder over the features of some images: an LSTM whose input is the word before and the
// features that it attends to (Xu et al. 2015, 3.1.2 and 4.2, with the products of Luong et al.
// 2015, 3.1, for the weights).
class Decoder {
 public:
  Decoder(nn::Model& model, Output features, int64_t units)
      : model_(model), scope_(model.scope("decoder")), units_(units) {
    const Shape shape = features.shape();
    const int64_t cells = shape[1] * shape[2], channels = shape[3];
    const Output place = model.parameter("position", {cells, channels}, nn::normal(0, 0.1));
    values_ = reshape(features, {-1, cells, channels}) + place;
    keys_ = nn::dense(model, values_, units, {.bias = false, .name = "keys"});
    const Output mean = reduce_mean(values_, {1});
    h_ = tanh(nn::dense(model, mean, units, {.name = "first_h"}));
    c_ = nn::dense(model, mean, units, {.name = "first_c"});
  }

  // [n, units]: the state before the first word.
  Output h() const { return h_; }
  Output c() const { return c_; }

  Output embedded(Output ids) const {
    return nn::embedding(model_, ids, word_count(), units_, {.weights = nn::normal(0, 0.1)});
  }

  // before [n, units], the embedded word before this one
  struct Next {
    Output h, c, seen;  // [n, units + channels]: the values that tell the word
  };
  Next step(Output before, Output h, Output c) const {
    const Output query = expand_dims(nn::dense(model_, h, units_, {.name = "query"}), 1);
    const Output fit =
        matmul(query, keys_, {.transpose_b = true}) * (1 / std::sqrt(static_cast<double>(units_)));
    const Output context = squeeze(matmul(softmax(fit), values_), {1});
    const nn::Recurrent out = nn::lstm(model_, expand_dims(concat({before, context}, 1), 0), units_,
                                       {.h = {h}, .c = {c}});
    return {out.h[0], out.c[0], concat({out.h[0], context}, 1)};
  }

  Output logits(Output seen) const {
    return nn::dense(model_, seen, word_count(), {.name = "logits"});
  }

 private:
  nn::Model& model_;
  const nn::Model::Scope scope_;
  const int64_t units_;
  Output values_, keys_, h_, c_;
};

}  // namespace

Output Captioner::features(nn::Model& model, Output images) const {
  const auto scope = model.scope("encoder");
  constexpr std::array<int64_t, 4> kFilters = {16, 32, 64, 64};
  Output x = images;
  for (int64_t i = 0; i < 4; ++i) {
    if (i >= 4 - given_.pools) x = max_pool2d(x);
    x = relu(nn::conv2d(model, x, kFilters[static_cast<size_t>(i)], 3,
                        {.weights = nn::he_normal(), .name = detail::concat("conv", i + 1)}));
  }
  return x;
}

Output Captioner::name(nn::Model& model, Output images) const {
  return nn::dense(model, reduce_max(features(model, images), {1, 2}), word_count(),
                   {.name = "name"});
}

Output Captioner::loss(nn::Model& model, Output images, Output words) const {
  const Decoder decoder(model, features(model, images), given_.units);
  // The word before each word; the first one comes after a stop.
  const Output first = slice(words, {0, 0}, {-1, 1});
  const Output before = concat({zeros_like(first), slice(words, {0, 0}, {-1, kWordsMax - 1})}, 1);
  const Output counts = concat({ones_like(first), slice(before, {0, 1}, {-1, -1})}, 1) != 0;
  const auto step = [&](const std::vector<Output>& carry, const std::vector<Output>& rows) {
    const Decoder::Next next = decoder.step(rows[0], carry[0], carry[1]);
    const Output each = softmax_cross_entropy(decoder.logits(next.seen), rows[1]);
    return Scanned{{next.h, next.c, carry[2] + reduce_sum(each * rows[2])}, {}};
  };
  const Output weights = cast(transpose(counts), DType::f32);
  const Output sum = scan(step, {decoder.h(), decoder.c(), fill(model.graph(), {}, 0)},
                          {decoder.embedded(transpose(before)), transpose(words), weights})
                         .carry[2];
  return sum / reduce_sum(weights);
}

Output Captioner::answer(nn::Model& model, Output images) const {
  const Decoder decoder(model, features(model, images), given_.units);
  const Output places = range(model.graph(), 0, static_cast<double>(kWordsMax), 1, DType::i64);
  const auto step = [&](const std::vector<Output>& carry, const std::vector<Output>& rows) {
    const Decoder::Next next = decoder.step(decoder.embedded(carry[0]), carry[1], carry[2]);
    const Output word = argmax(decoder.logits(next.seen));
    return Scanned{{word, next.h, next.c, where(places == rows[0], expand_dims(word, 1), carry[3])},
                   {}};
  };
  const Output stops = zeros_like(argmax(decoder.h()));  // [n]
  const Output none = tile(expand_dims(stops, 1), {1, kWordsMax});
  return scan(step, {stops, decoder.h(), decoder.c(), none}, {places}).carry[3];
}
