// The function skip_grams: pairs of a word and a word near it, by the rules of Mikolov, Sutskever,
// Chen, Corrado and Dean (2013), "Distributed Representations of Words and Phrases and their
// Compositionality", and of their program word2vec.
#include <algorithm>
#include <cmath>
#include <memory>

#include "data/random.hpp"
#include "data/source/fields.hpp"
#include "data/text/parts.hpp"
#include "troupe/text.hpp"

namespace troupe {
namespace {

constexpr uint64_t kCertain = uint64_t{1} << 32;
constexpr int64_t kWindowMax = 1 << 20;

// For each id the 32-bit numbers that keep a word: keep = sqrt(t / f), its share of all words being
// f (equation 5: discarded with 1 - sqrt(t / f)). Empty: all are kept.
std::vector<uint64_t> keep_of(double threshold, const std::vector<int64_t>& counts) {
  std::vector<uint64_t> keep;
  if (threshold == 0) return keep;
  double all = 0;
  for (const int64_t count : counts) all += static_cast<double>(count);
  for (const int64_t count : counts) {
    const double share = static_cast<double>(count) / all;
    const double kept = share > threshold ? std::sqrt(threshold / share) : 1;
    keep.push_back(static_cast<uint64_t>(kept * static_cast<double>(kCertain)));
  }
  return keep;
}

// The words of texts that are neither special nor discarded, each with the size of its window: one
// random number for both, its upper and its lower half.
struct Kept {
  std::vector<int64_t> words;
  std::vector<int64_t> windows;
  std::vector<int64_t> ends;  // of each text, in `words`
};

struct SkipGrams {
  size_t field;
  int64_t window, first_id;
  std::vector<uint64_t> keep;

  Kept kept(const SourceCall& call) const;
  // The centres and contexts of the texts of a record, one after the other.
  Record pairs(const SourceCall& call) const;
};

Kept SkipGrams::kept(const SourceCall& call) const {
  SplitMix random{call.key()};
  Kept out;
  const Tensor& ids = call.record()[field];
  const int64_t length = ids.dim(ids.ndim() - 1), texts = ids.ndim() == 1 ? 1 : ids.dim(0);
  const int64_t* id = ids.data<int64_t>();
  for (int64_t text = 0; text < texts; ++text) {
    for (const int64_t* end = id + length; id < end; ++id) {
      if (*id < first_id) continue;
      if (!keep.empty() && *id >= static_cast<int64_t>(keep.size()))
        throw call.bad("the id ", *id, " has no count; there are ", keep.size(),
                       "; are they of another vocabulary?");
      const uint64_t draw = random.next();
      if (!keep.empty() && draw >> 32 >= keep[static_cast<size_t>(*id)]) continue;
      out.words.push_back(*id);
      out.windows.push_back(
          1 + static_cast<int64_t>((draw & 0xFFFFFFFFU) * static_cast<uint64_t>(window) >> 32));
    }
    out.ends.push_back(static_cast<int64_t>(out.words.size()));
  }
  return out;
}

Record SkipGrams::pairs(const SourceCall& call) const {
  const Kept of = kept(call);
  // Calls f(centre, first, end) with the places of each word and of its window.
  const auto each = [&](const auto& f) {
    int64_t begin = 0;
    for (const int64_t end : of.ends) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t reach = of.windows[static_cast<size_t>(i)];
        f(i, std::max(begin, i - reach), std::min(end, i + reach + 1));
      }
      begin = end;
    }
  };
  int64_t size = 0;
  each([&](int64_t, int64_t first, int64_t end) { size += end - first - 1; });
  Tensor centres = Tensor::empty(DType::i64, Shape{size}),
         contexts = Tensor::empty(DType::i64, Shape{size});
  auto *centre = centres.mutable_data<int64_t>(), *context = contexts.mutable_data<int64_t>();
  const int64_t* const words = of.words.data();
  each([&](int64_t i, int64_t first, int64_t end) {
    centre = std::fill_n(centre, end - first - 1, words[i]);
    context = std::copy(words + first, words + i, context);
    context = std::copy(words + i + 1, words + end, context);
  });
  return {std::move(centres), std::move(contexts)};
}

// Each pair as a record of its own.
std::vector<Record> apart(const Record& pairs) {
  std::vector<Record> out;
  out.reserve(static_cast<size_t>(pairs[0].size()));
  for (int64_t i = 0; i < pairs[0].size(); ++i)
    out.push_back({pairs[0].rows(i, i + 1).reshaped({}), pairs[1].rows(i, i + 1).reshaped({})});
  return out;
}

}  // namespace

SourceStep bind_skip_grams(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("skip_grams", args);
  const size_t number =
      field_number(inputs, read.get<std::string>("field", kTextField), "skip_grams");
  const auto window = read.get<int64_t>("window", 5);
  const auto threshold = read.get<double>("subsample", 0);
  const auto counts = read.get<std::vector<int64_t>>("counts", {});
  const auto first_id = read.get<int64_t>("first_id", Vocabulary::kEnd + 1);
  const auto per = read.get<std::string>("per", "pair");
  read.done();
  const Field& field = inputs[number];
  if (field.type.dtype != DType::i64 || field.type.shape.ndim() < 1 || field.type.shape.ndim() > 2)
    throw Error(Errc::invalid_argument, "skip_grams wants ids, i64 [-1] or a batch of such, but ",
                field.name, " is ", field.type.dtype, " ", field.type.shape,
                "; make ids by tokenize");
  if (window < 1 || window > kWindowMax || (per != "pair" && per != "record"))
    throw Error(Errc::invalid_argument, "skip_grams wants a window from 1 to ", kWindowMax,
                " and per = pair or record, got ", window, " and \"", per, "\"");
  if (!(threshold >= 0 && threshold <= 1) || (threshold > 0) != !counts.empty())
    throw Error(Errc::invalid_argument,
                "skip_grams wants a subsample from 0 to 1, and with more "
                "than 0, and only then, counts by id, got ",
                threshold, " and ", counts.size(), " counts; Vocabulary::counts() makes them");
  for (const int64_t count : counts)
    if (count < 0) throw Error(Errc::invalid_argument, "skip_grams got a count of ", count);
  if (first_id < 0)
    throw Error(Errc::invalid_argument, "skip_grams wants a first_id of at least 0, got ",
                first_id);
  const auto made = std::make_shared<const SkipGrams>(
      SkipGrams{number, window, first_id, keep_of(threshold, counts)});
  SourceStep out;
  const bool records = per == "record";
  const Shape shape = records ? Shape{-1} : Shape{};
  out.fields = {{"centre", {DType::i64, shape}}, {"context", {DType::i64, shape}}};
  out.same_count = records;
  if (records)
    out.map = [made](const SourceCall& call) { return made->pairs(call); };
  else
    out.expand = [made](const SourceCall& call) { return apart(made->pairs(call)); };
  return out;
}

}  // namespace troupe
