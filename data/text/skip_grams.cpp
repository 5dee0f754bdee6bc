// The function skip_grams: pairs of a word and a word near it, by the rules of Mikolov, Sutskever,
// Chen, Corrado and Dean (2013), "Distributed Representations of Words and Phrases and their
// Compositionality", and of their program word2vec.
#include <cmath>

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

// The words of a text that are neither special nor discarded, each with the size of its window: one
// random number for both, its upper and its lower half.
struct Kept {
  std::vector<int64_t> words;
  std::vector<int64_t> windows;
};

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
  if (field.type != TensorType{DType::i64, {-1}})
    throw Error(Errc::invalid_argument, "skip_grams wants ids, i64 [-1], but ", field.name, " is ",
                field.type.dtype, " ", field.type.shape, "; make ids by tokenize");
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
  const std::vector<uint64_t> keep = keep_of(threshold, counts);
  const bool pairs_apart = per == "pair";
  SourceStep out;
  const Shape shape = pairs_apart ? Shape{} : Shape{-1};
  out.fields = {{"centre", {DType::i64, shape}}, {"context", {DType::i64, shape}}};
  out.same_count = !pairs_apart;
  out.expand = [=](const SourceCall& call) {
    SplitMix random{call.key()};
    Kept kept;
    for (const int64_t id : call.record()[number].values<int64_t>()) {
      if (id < first_id) continue;
      if (!keep.empty() && id >= static_cast<int64_t>(keep.size()))
        throw call.bad("the id ", id, " has no count; there are ", keep.size(),
                       "; are they of another vocabulary?");
      const uint64_t draw = random.next();
      if (!keep.empty() && draw >> 32 >= keep[static_cast<size_t>(id)]) continue;
      kept.words.push_back(id);
      kept.windows.push_back(
          1 + static_cast<int64_t>((draw & 0xFFFFFFFFU) * static_cast<uint64_t>(window) >> 32));
    }
    const auto n = static_cast<int64_t>(kept.words.size());
    const auto first = [&](int64_t i) { return std::max<int64_t>(0, i - kept.windows[i]); };
    const auto last = [&](int64_t i) { return std::min(n - 1, i + kept.windows[i]); };
    int64_t size = 0;
    for (int64_t i = 0; i < n; ++i) size += last(i) - first(i);
    Tensor centres = Tensor::empty(DType::i64, Shape{size}),
           contexts = Tensor::empty(DType::i64, Shape{size});
    auto *centre = centres.mutable_data<int64_t>(), *context = contexts.mutable_data<int64_t>();
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = first(i); j <= last(i); ++j) {
        if (j == i) continue;
        *centre++ = kept.words[i];
        *context++ = kept.words[j];
      }
    std::vector<Record> records;
    if (!pairs_apart) {
      records.push_back({std::move(centres), std::move(contexts)});
      return records;
    }
    records.reserve(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i)
      records.push_back(
          {centres.rows(i, i + 1).reshaped({}), contexts.rows(i, i + 1).reshaped({})});
    return records;
  };
  return out;
}

}  // namespace troupe
