// Answers: how many sentences of a network are right, and a sheet that shows some.
#pragma once

#include <array>
#include <string>

#include "apps/captions/sentences.hpp"
#include "troupe/metrics.hpp"

// Said and right sentences are i64 [n, kWordsMax], up to their stops.
class RightSentences {
 public:
  void add(const troupe::Tensor& said, const troupe::Tensor& right, const troupe::Tensor& digits);
  double exact() const;                // share of sentences that are right in every word
  double exact(int64_t digits) const;  // of the scenes with so many digits; NaN without any
  double words() const;  // share of the words of right sentences, their stops, too, at their places

 private:
  std::array<int64_t, kDigitsMax + 1> right_ = {}, all_ = {};  // by digits
  int64_t right_words_ = 0, all_words_ = 0;
};

// A sheet as SVG: each scene with the sentence that the network says, and the right one below it
// where they differ. images f32 [n, side, side, 1] in [0, 1].
std::string to_sheet(const troupe::Tensor& images, const troupe::Tensor& right,
                     const troupe::Tensor& said);
