// The networks of captions: a convolutional encoder, a head that names one digit, and a recurrent
// decoder that looks at the encoder's features anew for each word.
#pragma once

#include <cstdint>

#include "troupe/nn.hpp"

struct NetworkOptions {
  int64_t units = 128;  // of the decoder
  int64_t pools = 3;    // in the encoder, 0 to 3; each halves rows and columns
};

// Its parameters are the same for all models of one graph.
class Captioner {
 public:
  explicit Captioner(const NetworkOptions& given) : given_(given) {}

  // images [n, side, side, 1] -> features [n, rows, columns, channels], in the scope "encoder".
  troupe::Output features(troupe::nn::Model& model, troupe::Output images) const;
  // For a picture with one digit: a value for each word -> [n, words].
  troupe::Output name(troupe::nn::Model& model, troupe::Output images) const;
  // words [n, kWordsMax] -> their loss, the mean over all words up to the stop of a sentence.
  troupe::Output loss(troupe::nn::Model& model, troupe::Output images, troupe::Output words) const;
  // The most probable words, each given those before it -> i64 [n, kWordsMax].
  troupe::Output answer(troupe::nn::Model& model, troupe::Output images) const;

 private:
  const NetworkOptions given_;
};
