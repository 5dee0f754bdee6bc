// The model of words: skip-gram with negative samples (Mikolov et al. 2013). A word has two
// vectors, one as a centre and one as a word near others; the first ones are the result.
//
// Owner: the program. Thread: the one that builds the graph.
#pragma once

#include <vector>

#include "troupe/nn.hpp"
#include "troupe/training.hpp"

struct SkipGram {
  int64_t words = 0, dim = 100;
  int64_t negatives = 5;             // for each pair
  int64_t drawn = 32;                // by which a batch stands for them
  std::vector<int64_t> counts = {};  // of words by id; a word of count 0 is never drawn
  int64_t seed = 1;

  // The vectors of all words, [words, dim].
  troupe::Output vectors(troupe::nn::Model& model) const;

  // Pairs of ids, centre and context [pairs], any number of them. All pairs of a batch share their
  // negative samples, each of which counts negatives / drawn, so that the expected gradient is that
  // of samples of its own for each pair.
  struct Loss {
    troupe::Output sum, mean;  // over the pairs; mean is 0 without pairs
  };
  Loss loss(troupe::nn::Model& model, troupe::Output centre, troupe::Output context) const;
  // The mean loss of the pairs of a source with these two fields.
  troupe::Evaluation evaluation(troupe::nn::Model& model) const;
};
