// Bleu and bleu(): counts runs of tokens, and scores their sums.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

#include "training/metrics/metric_values.hpp"
#include "troupe/metrics.hpp"

namespace troupe {
namespace {

using Sentence = Bleu::Sentence;
using Counts = std::map<Sentence, int64_t>;

// The number of times that each run of `order` tokens occurs.
Counts runs_of(const Sentence& tokens, size_t order) {
  Counts out;
  for (size_t i = 0; i + order <= tokens.size(); ++i) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i);
    ++out[Sentence(begin, begin + static_cast<std::ptrdiff_t>(order))];
  }
  return out;
}

int64_t nearest_length(int64_t length, std::span<const Sentence> references) {
  int64_t nearest = 0, distance = INT64_MAX;
  for (const Sentence& reference : references) {
    const auto size = static_cast<int64_t>(reference.size());
    const int64_t d = std::abs(size - length);
    if (d > distance || (d == distance && size >= nearest)) continue;
    distance = d;
    nearest = size;
  }
  return nearest;
}

// Row `row` of tokens [..., most], up to the first `end`.
Sentence sentence_at(const Tensor& tokens, int64_t row, int64_t end) {
  const int64_t most = tokens.dim(tokens.ndim() - 1);
  Sentence out;
  for (int64_t i = row * most; i < (row + 1) * most; ++i) {
    const int64_t token = integer_at(tokens, i);
    if (token == end) break;
    out.push_back(token);
  }
  return out;
}

void add_sentences(Bleu& bleu, const std::string& metric, const Tensor& translations,
                   const Tensor& labels, int64_t end) {
  require_integers(metric, "translations", translations);
  require_integers(metric, "references", labels);
  if (translations.ndim() != 2 || (labels.ndim() != 2 && labels.ndim() != 3) ||
      labels.dim(0) != translations.dim(0) || (labels.ndim() == 3 && labels.dim(1) == 0))
    throw refused_by(metric,
                     "wants translations [n, most] and references [n, most] or [n, references, "
                     "most] as labels, got ",
                     translations.shape(), " and ", labels.shape());
  const int64_t of_each = labels.ndim() == 3 ? labels.dim(1) : 1;
  for (int64_t row = 0; row < translations.dim(0); ++row) {
    std::vector<Sentence> references;
    for (int64_t r = 0; r < of_each; ++r) {
      Sentence reference = sentence_at(labels, row * of_each + r, end);
      if (!reference.empty()) references.push_back(std::move(reference));
    }
    if (references.empty()) references.emplace_back();
    bleu.add(sentence_at(translations, row, end), references);
  }
}

}  // namespace

Metric bleu(int64_t end, size_t fetch, std::string name, bool smooth) {
  return metric(
      name, Bleu(smooth),
      [name, fetch, end](Bleu& all, const std::vector<Tensor>& values, const Batch& batch) {
        if (fetch >= values.size())
          throw refused_by(name, "is of fetch ", fetch, ", but only ", values.size(),
                           " are fetched; add it to Evaluation::fetches");
        add_sentences(all, name, values[fetch], batch.labels, end);
      },
      [](const Bleu& all) { return all.value(); });
}

void Bleu::add(const Sentence& translation, std::span<const Sentence> references) {
  if (references.empty())
    throw Error(Errc::invalid_argument, "Bleu: wants at least one reference for a translation");
  for (size_t n = 0; n < kOrder; ++n) {
    Counts most;  // the highest count of each run in a reference
    for (const Sentence& reference : references)
      for (const auto& [run, count] : runs_of(reference, n + 1))
        most[run] = std::max(most[run], count);
    for (const auto& [run, count] : runs_of(translation, n + 1)) {
      tries_[n] += count;
      if (const auto it = most.find(run); it != most.end())
        matches_[n] += std::min(count, it->second);
    }
  }
  const auto length = static_cast<int64_t>(translation.size());
  length_ += length;
  reference_length_ += nearest_length(length, references);
}

// Counts are of one sentence at a time, so numbers of words need not outlive it.
void Bleu::add(std::span<const std::string> translation, std::span<const std::string> reference) {
  std::map<std::string_view, int64_t> numbers;
  const auto numbered = [&](std::span<const std::string> words) {
    Sentence out;
    for (const std::string& word : words)
      out.push_back(numbers.emplace(word, static_cast<int64_t>(numbers.size())).first->second);
    return out;
  };
  add(numbered(translation), numbered(reference));
}

double Bleu::value() const {
  double logs = 0;
  for (size_t n = 0; n < kOrder; ++n) {
    const double extra = smooth_ && n > 0 ? 1 : 0;
    const double matches = static_cast<double>(matches_[n]) + extra;
    const double tries = static_cast<double>(tries_[n]) + extra;
    if (matches == 0) return 0;
    logs += std::log(matches / tries) / kOrder;
  }
  const double ratio =
      static_cast<double>(reference_length_) / static_cast<double>(length_);  // length_ > 0
  return std::exp(logs + std::min(0.0, 1 - ratio));
}

}  // namespace troupe
