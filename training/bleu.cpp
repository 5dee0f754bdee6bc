// Bleu of include/troupe/training/metrics.hpp: counts of runs of tokens, and the score of their
// sums.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "troupe/training/metrics.hpp"

namespace troupe {
namespace {

using Sentence = Bleu::Sentence;
using Counts = std::map<Sentence, int64_t>;

// How often each run of `order` tokens occurs.
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

}  // namespace

void Bleu::add(const Sentence& translation, std::span<const Sentence> references) {
  if (references.empty())
    throw Error(Errc::invalid_argument, "Bleu: wants at least one reference for a translation");
  for (size_t n = 0; n < kOrder; ++n) {
    Counts most;  // in any of the references
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
      static_cast<double>(reference_length_) / static_cast<double>(length_);  // > 0 of matches
  return std::exp(logs + std::min(0.0, 1 - ratio));
}

}  // namespace troupe
