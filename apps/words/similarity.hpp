// Judgements of people on how similar two words are, and the correlation of ranks that tells how
// well a model agrees with them.
//
// Owner: the program. Thread: its main one.
#pragma once

#include <string>
#include <vector>

#include "troupe/text.hpp"

struct Judgements {
  std::string name;           // of the file
  std::vector<int64_t> a, b;  // ids of the pairs of words that the vocabulary has
  std::vector<double> scores;
  int64_t missing = 0;  // pairs with a word that the vocabulary does not have
};

// Files of lines "word word score", with spaces or tabs between them; words are compared in lower
// case. Throws: Error(invalid_argument) for two files of one name; Error(io); Error(bad_data) with
// file and line for a line of another form, and for a file with fewer than two pairs in the
// vocabulary.
std::vector<Judgements> read_judgements(const std::vector<std::string>& paths,
                                        const troupe::Vocabulary& vocabulary);

// Spearman's correlation of ranks; equal values have the mean of their ranks. NaN if all values of
// one side are equal. Requires: equally many, at least two.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);
