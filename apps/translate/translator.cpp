// Translates lines in batches of similar length, and writes and scores the results.
#include "apps/translate/translator.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>

#include "apps/program/run_all.hpp"
#include "troupe/metrics.hpp"
#include "troupe/ops.hpp"

using namespace troupe;

namespace {

constexpr int64_t kBatch = 32;  // sentences of a call
constexpr int64_t kCallsAtOnce = 2;

// Lines `rows` as one tensor, filled up; longer ones keep their begin and their end.
Tensor padded(const std::vector<std::vector<int64_t>>& ids, std::span<const size_t> rows,
              int64_t longest) {
  int64_t time = 0;
  for (const size_t row : rows)
    time = std::max(time, std::min(longest, static_cast<int64_t>(ids[row].size())));
  Tensor out = Tensor::zeros(DType::i64, {static_cast<int64_t>(rows.size()), time});
  int64_t* to = out.mutable_data<int64_t>();
  for (const size_t row : rows) {
    const auto length = std::min(longest, static_cast<int64_t>(ids[row].size()));
    std::copy_n(ids[row].begin(), length, to);
    to[length - 1] = Vocabulary::kEnd;
    to += time;
  }
  return out;
}

std::string joined(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out + "\n";
}

}  // namespace

Translator::Translator(Graph& graph, const TranslationNetwork& network, const nn::BeamOptions& how,
                       int64_t longest)
    : longest_(longest), source_(placeholder(graph, DType::i64, {-1, -1})) {
  nn::Model model(graph);
  best_ = squeeze(slice(network.translate(model, source_, how).ids, {0, 0, 0}, {-1, 1, -1}), {1});
}

std::vector<Words> Translator::operator()(Session& session, const Lines& lines,
                                          const Pieces& pieces) const {
  std::vector<size_t> order;
  int64_t cut = 0;
  size_t first_cut = 0;
  for (size_t i = 0; i < lines.ids.size(); ++i) {
    const auto length = static_cast<int64_t>(lines.ids[i].size());
    if (length > 1) order.push_back(i);
    if (length > longest_ && ++cut == 1) first_cut = i;
  }
  if (cut > 0)
    std::printf("%" PRId64 " sentences are longer than %" PRId64
                " pieces and were cut, the first in line %zu\n",
                cut, longest_, first_cut + 1);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lines.ids[a].size() > lines.ids[b].size(); });
  const Callable callable = session.prepare({best_}, {source_});
  std::vector<Call> calls;
  for (size_t i = 0; i < order.size(); i += kBatch)
    calls.push_back(
        {callable,
         {padded(lines.ids, std::span(order).subspan(i, std::min<size_t>(kBatch, order.size() - i)),
                 longest_)}});
  std::vector<Words> out(lines.ids.size());
  ProgressLine line("translate");
  run_all(calls, kCallsAtOnce, line, "batches", [&](size_t call, const std::vector<Tensor>& got) {
    for (int64_t row = 0; row < got[0].dim(0); ++row)
      out[order[call * kBatch + static_cast<size_t>(row)]] =
          pieces.words(got[0].rows(row, row + 1));
  });
  return out;
}

double bleu_of(const std::vector<Words>& translations, const std::vector<Words>& references) {
  Bleu bleu;
  for (size_t i = 0; i < translations.size(); ++i) bleu.add(translations[i], references[i]);
  return 100 * bleu.value();
}

std::string write_translations(const OutFolder& out, const std::string& name,
                               const std::vector<Words>& translations, const Lines& lines,
                               const LogSink& say) {
  std::string text, tokens, references;
  for (const Words& words : translations) {
    text += detokenize(words, TokenKind::words) + "\n";
    tokens += joined(words);
  }
  for (const Words& words : lines.references) references += joined(words);
  write_extra(out / (name + ".tokens"), tokens, say);
  if (!references.empty()) write_extra(out / "reference.tokens", references, say);
  return write_extra(out / (name + ".txt"), text, say);
}
