// Answers: questions to the vectors of words, which the graph answers.
//
// Owner: the program. Thread: its main one.
#pragma once

#include <string>
#include <vector>

#include "apps/words/similarity.hpp"
#include "apps/words/skip_gram.hpp"
#include "troupe/session.hpp"
#include "troupe/text.hpp"

class Answers {
 public:
  // Adds its nodes to the model's graph.
  Answers(troupe::nn::Model& model, const SkipGram& net, troupe::Vocabulary vocabulary);

  // The correlation of ranks between judgements and the cosines of the pairs.
  double agreement(troupe::Session& session, const Judgements& given) const;
  // The words with the greatest cosines: "dog: puppy 0.81, cat 0.79".
  std::string neighbours(troupe::Session& session, int64_t id) const;
  // In the text format of word2vec: "WORDS DIM", then a word and its numbers a line. Throws:
  // Error(io).
  void write(troupe::Session& session, const std::string& path) const;

 private:
  const troupe::Vocabulary vocabulary_;
  troupe::Output vectors_, a_, b_, cosine_, nearest_, nearest_cosines_;
};
