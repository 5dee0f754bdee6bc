// Reads judgements, and ranks values: equal ones share the mean of their places.
#include "apps/words/similarity.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "troupe/error.hpp"
#include "troupe/source.hpp"

using namespace troupe;

namespace {

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> out(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i)
      out[order[i]] = static_cast<double>(begin + end - 1) / 2;  // from 0
  }
  return out;
}

Judgements read_file(const std::string& path, const Vocabulary& vocabulary) {
  Judgements out{.name = std::filesystem::path(path).filename().string()};
  Source::Records lines =
      Source::of("lines", {{"paths", std::vector<std::string>{path}}}).records();
  int64_t number = 0;
  while (const auto line = lines.next()) {
    ++number;
    const auto bytes = (*line)[0].values<uint8_t>();
    const auto parts = tokenize(std::string(bytes.begin(), bytes.end()), TokenKind::whitespace);
    if (parts.empty()) continue;
    char* end = nullptr;
    const double score = parts.size() == 3 ? std::strtod(parts[2].c_str(), &end) : 0;
    if (!end || end == parts[2].c_str() || *end != 0 || !std::isfinite(score))
      throw Error(Errc::bad_data, path, ": line ", number, ": wants two words and a number, got ",
                  parts.size(), " parts: ", std::string(bytes.begin(), bytes.end()));
    const auto id = [&](const std::string& word) {
      const auto tokens = tokenize(word, TokenKind::words);
      return tokens.size() == 1 ? vocabulary.id(tokens[0]) : Vocabulary::kUnknown;
    };
    const int64_t a = id(parts[0]), b = id(parts[1]);
    if (a == Vocabulary::kUnknown || b == Vocabulary::kUnknown) {
      ++out.missing;
      continue;
    }
    out.a.push_back(a), out.b.push_back(b), out.scores.push_back(score);
  }
  if (out.scores.size() < 2)
    throw Error(Errc::bad_data, path, ": ", out.scores.size(), " of ",
                out.missing + static_cast<int64_t>(out.scores.size()),
                " pairs have both words in the vocabulary, and at least 2 are needed; give a text "
                "that has them, or a smaller --min-count");
  return out;
}

}  // namespace

std::vector<Judgements> read_judgements(const std::vector<std::string>& paths,
                                        const Vocabulary& vocabulary) {
  std::vector<Judgements> out;
  for (const std::string& path : paths) {
    Judgements one = read_file(path, vocabulary);
    for (const Judgements& other : out)
      if (other.name == one.name)
        throw Error(Errc::invalid_argument, "--similarity has two files called ", one.name);
    out.push_back(std::move(one));
  }
  return out;
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> of_a = ranks(a), of_b = ranks(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = of_a[i] - mean, y = of_b[i] - mean;
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}
