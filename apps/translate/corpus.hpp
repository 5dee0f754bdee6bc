// The sentences of translate, in pairs, and the pieces of words that they are made of.
//
// Owner: the program. Both languages share one byte-pair encoding and one vocabulary, whose files
// are in the folder --out for all processes that read the sources. Text is in lower case.
#pragma once

#include <string>
#include <vector>

#include "apps/program/out_folder.hpp"
#include "troupe/source.hpp"
#include "troupe/text.hpp"

using Words = std::vector<std::string>;

class Pieces {
 public:
  // Learns from the texts `paths`, and writes files into `out` whose names have the fingerprint of
  // the vocabulary, so those of an earlier training stay. Throws: Error(bad_data) for text that is
  // not UTF-8 or missing.
  static Pieces learn(const std::vector<std::string>& paths, int64_t merges, const OutFolder& out);
  // Reads the files that keep() has left beside the weights of a training.
  static Pieces read(const OutFolder& out);
  void keep(const OutFolder& out) const;
  const troupe::Vocabulary& vocabulary() const { return vocabulary_; }

  // The arguments of `tokenize` for a field; `begin`: with the mark of the begin.
  troupe::SourceArgs arguments(const std::string& field, bool begin) const;
  Words words(const troupe::Tensor& ids) const;  // as far as the end
  int64_t size() const { return vocabulary_.size(); }

 private:
  struct Files {
    std::string vocabulary, merges;
  };
  Pieces(Files files, troupe::Vocabulary vocabulary, troupe::Bpe bpe)
      : files_(std::move(files)), vocabulary_(std::move(vocabulary)), bpe_(std::move(bpe)) {}
  static Files kept(const OutFolder& out);

  const Files files_;
  const troupe::Vocabulary vocabulary_;
  const troupe::Bpe bpe_;
};

struct Languages {
  std::string folder, from, to;
  // FOLDER/PART.from and FOLDER/PART.to, each perhaps with .gz. Throws: Error(io) that names what
  // is missing.
  std::vector<std::string> files(const std::string& part) const;
};

// Batches of pairs: `source` [batch, time] with the mark of the end, `target` [batch, time] with
// both.
struct Corpus {
  troupe::Source train, validation;
  int64_t pairs = 0, target_tokens = 0;  // in an epoch of `train`
  std::string left_out;                  // for people: how many pairs, and the first of each kind
};
struct CorpusOptions {
  int64_t longest = 0;  // tokens of a sentence with its marks; longer ones are not learnt from
  int64_t batch = 0;    // target tokens of a replica in a step, about
  uint64_t seed = 0;
};
// Throws: Error(bad_data) for sides of different length, and if nothing is left to learn from.
Corpus load_corpus(const std::vector<std::string>& train, const std::vector<std::string>& held,
                   const Pieces& pieces, const CorpusOptions& options);

// Lines to translate: ids with the mark of the end. Without a file `to`, references are empty.
struct Lines {
  std::vector<std::vector<int64_t>> ids;
  std::vector<Words> references;
};
// `paths`: of one text, or of it and its translation.
Lines read_lines(const std::vector<std::string>& paths, const Pieces& pieces);
