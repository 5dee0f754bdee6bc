// Cosines are products of vectors of length 1. Special tokens of the vocabulary are no words.
#include "apps/words/answers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <utility>

#include "troupe/ops.hpp"

using namespace troupe;

namespace {

constexpr int64_t kShown = 6, kFirst = Vocabulary::kEnd + 1;

Tensor vector_of(const std::vector<int64_t>& ids) {
  return Tensor::of<int64_t>(std::span<const int64_t>(ids), {static_cast<int64_t>(ids.size())});
}

}  // namespace

Answers::Answers(nn::Model& model, const SkipGram& net, Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      vectors_(slice(net.vectors(model), {kFirst, 0}, {-1, -1})),
      a_(placeholder(model.graph(), DType::i64, {-1})),
      b_(placeholder(model.graph(), DType::i64, {-1})) {
  const Output unit = l2_normalize(vectors_), of_a = gather(unit, a_ - kFirst);
  cosine_ = reduce_sum(of_a * gather(unit, b_ - kFirst), {.axes = {1}});
  const int64_t others = std::min(kShown + 1, net.words - kFirst);  // the word itself comes first
  const TopK nearest = top_k(matmul(of_a, unit, {.transpose_b = true}), others);
  nearest_ = nearest.indices, nearest_cosines_ = nearest.values;
}

double Answers::agreement(Session& session, const Judgements& given) const {
  const Tensor cosines =
      session.run({cosine_}, {{a_, vector_of(given.a)}, {b_, vector_of(given.b)}})[0];
  const auto values = cosines.values<float>();
  return rank_correlation({values.begin(), values.end()}, given.scores);
}

std::string Answers::neighbours(Session& session, int64_t id) const {
  const auto got = session.run({nearest_, nearest_cosines_}, {{a_, vector_of({id})}});
  std::string out = vocabulary_.word(id) + ":";
  const char* before = " ";
  for (int64_t i = 0; i < got[0].size(); ++i) {
    const int64_t other = got[0].data<int64_t>()[i] + kFirst;
    if (other == id) continue;
    char cosine[16];
    std::snprintf(cosine, sizeof cosine, " %.2f", static_cast<double>(got[1].data<float>()[i]));
    out += std::exchange(before, ", ") + vocabulary_.word(other) + cosine;
  }
  return out;
}

void Answers::write(Session& session, const std::string& path) const {
  const Tensor vectors = session.run({vectors_})[0];
  std::ofstream out(path);
  out << vectors.dim(0) << ' ' << vectors.dim(1) << '\n';
  const float* value = vectors.data<float>();
  for (int64_t i = 0; i < vectors.dim(0); ++i) {
    out << vocabulary_.word(i + kFirst);
    for (int64_t j = 0; j < vectors.dim(1); ++j) {
      std::array<char, 32> text;  // the shortest that reads back as the same number
      const auto end = std::to_chars(text.data(), text.data() + text.size(), *value++).ptr;
      (out << ' ').write(text.data(), end - text.data());
    }
    out << '\n';
  }
  if (!out.flush()) throw Error(Errc::io, path, ": cannot be written; is the disk full?");
}
