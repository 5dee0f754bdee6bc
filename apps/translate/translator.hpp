// Translator: sentences through a trained network, by a search in the graph.
//
// Owner: the program. Thread: its main one.
#pragma once

#include "apps/program/out_folder.hpp"
#include "apps/translate/corpus.hpp"
#include "apps/translate/network.hpp"
#include "troupe/session.hpp"

class Translator {
 public:
  // Adds the network's search to the graph, in the open scope. `longest`: of a sentence, in tokens;
  // longer ones are cut.
  Translator(troupe::Graph& graph, const TranslationNetwork& network,
             const troupe::nn::BeamOptions& how, int64_t longest);

  // Several batches at a time; an empty line stays empty. Prints how many lines were cut.
  std::vector<Words> operator()(troupe::Session& session, const Lines& lines,
                                const Pieces& pieces) const;

 private:
  const int64_t longest_;
  troupe::Output source_, best_;
};

double bleu_of(const std::vector<Words>& translations, const std::vector<Words>& references);

// Writes the translations as text into NAME.txt and as tokens into NAME.tokens, and references, if
// there are any, into reference.tokens. Returns the path of the text, for people.
std::string write_translations(const OutFolder& out, const std::string& name,
                               const std::vector<Words>& translations, const Lines& lines,
                               const troupe::LogSink& say);
