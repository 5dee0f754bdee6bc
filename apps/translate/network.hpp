// The networks of translate: each reads a sentence of one language and gives every token of the
// other one values for the next one.
//
// Owner: the program. Sentences are ids [batch, time], filled up with Vocabulary::kPad.
#pragma once

#include "apps/flags.hpp"
#include "apps/translate/layers.hpp"

void add_network_flags(Flags& flags, NetworkOptions& to);
// Throws: Error(invalid_argument) that names the flag.
void check(const NetworkOptions& given);

// Its parameters are the same for all models of one graph.
class TranslationNetwork {
 public:
  // `longest`: a sentence, in tokens, both marks included.
  TranslationNetwork(const NetworkOptions& given, int64_t tokens, int64_t longest)
      : given_(given), tokens_(tokens), longest_(longest) {}

  // Over the tokens of `target` behind its first one.
  struct Loss {
    troupe::Output sum;       // of -log(probability)
    troupe::Output smoothed;  // the mean, with label smoothing (Szegedy et al. 2016)
    troupe::Output count;     // of tokens, f32
  };
  Loss loss(troupe::nn::Model& model, troupe::Output source, troupe::Output target,
            double smoothing) const;

  troupe::nn::Beams translate(troupe::nn::Model& model, troupe::Output source,
                              const troupe::nn::BeamOptions& how) const;

 private:
  Layers on(troupe::nn::Model& model) const { return {model, given_, tokens_, longest_}; }

  const NetworkOptions given_;
  const int64_t tokens_, longest_;
};
