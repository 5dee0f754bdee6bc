// Reads texts, learns their pieces, and describes the batches.
#include "apps/translate/corpus.hpp"

#include <algorithm>

#include "apps/program/tokens.hpp"
#include "troupe/tensor.hpp"

using namespace troupe;

namespace {

constexpr int64_t kSeen = 2;         // a piece seen less often is <unk>, which so has examples
constexpr int64_t kAtOnce = 32;      // sentences, in evaluation
constexpr int64_t kOrder = 1 << 20;  // pairs that a draw chooses from

Source pairs_of(const std::vector<std::string>& paths, const Pieces& pieces) {
  return Source::of("lines", {{"paths", paths},
                              {"parallel", true},
                              {"fields", std::vector<std::string>{"source", "target"}}})
      .map("tokenize", pieces.arguments("source", false))
      .map("tokenize", pieces.arguments("target", true));
}

// Lengths up to which a batch is filled up: each a tenth longer than the one before.
std::vector<int64_t> bounds_up_to(int64_t longest) {
  std::vector<int64_t> out;
  for (int64_t bound = std::min<int64_t>(8, longest); bound < longest;
       bound += std::max<int64_t>(2, bound / 10))
    out.push_back(bound);
  out.push_back(longest);
  return out;
}

}  // namespace

Pieces Pieces::learn(const std::vector<std::string>& paths, int64_t merges, const OutFolder& out) {
  const WordCounts words = count_words(paths, TokenKind::words);
  if (words.empty()) throw Error(Errc::bad_data, paths[0], " and ", paths[1], " have no words");
  const Bpe bpe = Bpe::train(words, merges);
  const Vocabulary vocabulary = Vocabulary::of(bpe.counts(words), {.min_count = kSeen});
  const Files files = {token_file(out, "vocabulary", vocabulary),
                       token_file(out, "merges", vocabulary)};
  vocabulary.write(files.vocabulary);
  bpe.write(files.merges);
  return {files, vocabulary, bpe};
}

Pieces Pieces::read(const OutFolder& out) {
  const Files files = kept(out);
  return {files, Vocabulary::read(files.vocabulary), Bpe::read(files.merges)};
}

void Pieces::keep(const OutFolder& out) const {
  const Files files = kept(out);
  vocabulary_.write(files.vocabulary);
  bpe_.write(files.merges);
}

Pieces::Files Pieces::kept(const OutFolder& out) {
  return {(out / "vocabulary.txt").string(), (out / "merges.txt").string()};
}

SourceArgs Pieces::arguments(const std::string& field, bool begin) const {
  return {{"field", field},
          {"kind", std::string("bpe")},
          {"split", std::string("words")},
          {"vocabulary", files_.vocabulary},
          {"merges", files_.merges},
          {"vocabulary_size", vocabulary_.size()},
          {"fingerprint", fingerprint_of(vocabulary_)},
          {"begin", begin},
          {"end", true}};
}

Words Pieces::words(const Tensor& ids) const {
  return bpe_.decode(vocabulary_.words(ids.values<int64_t>()));
}

std::vector<std::string> Languages::files(const std::string& part) const {
  std::vector<std::string> out;
  for (const std::string& language : {from, to}) {
    const std::string name = part + "." + language;
    const std::filesystem::path plain = std::filesystem::absolute(folder) / name;
    const std::filesystem::path packed = plain.string() + ".gz";
    const bool there = std::filesystem::exists(plain);
    if (!there && !std::filesystem::exists(packed))
      throw Error(Errc::io, folder, " has no ", name, " or ", name,
                  ".gz; wanted is a file with a sentence a line in each language");
    out.push_back((there ? plain : packed).string());
  }
  return out;
}

Corpus load_corpus(const std::vector<std::string>& train, const std::vector<std::string>& held,
                   const Pieces& pieces, const CorpusOptions& given) {
  const Source all = pairs_of(train, pieces);
  int64_t pairs = 0, tokens = 0, line = 0, empty = 0, first_empty = 0, longer = 0, first_longer = 0;
  Source::Records records = all.records();
  while (const auto record = records.next()) {
    const int64_t source = (*record)[0].dim(0), target = (*record)[1].dim(0);
    ++line;
    if (source < 2 || target < 3) {
      if (++empty == 1) first_empty = line;
    } else if (std::max(source, target) > given.longest) {
      if (++longer == 1) first_longer = line;
    } else {
      ++pairs;
      tokens += target - 1;
    }
  }
  std::string left_out;
  if (empty > 0)
    left_out += detail::concat(empty, " with an empty side, the first in line ", first_empty);
  if (longer > 0)
    left_out += detail::concat(empty ? "; " : "", longer, " longer than ", given.longest,
                               " pieces, the first in line ", first_longer);
  if (pairs == 0)
    throw Error(Errc::bad_data, train[0], " and ", train[1], ": no pair of sentences is left",
                left_out.empty() ? "" : ": ", left_out, "; give more text, or a larger --length");
  const std::vector<int64_t> bounds = bounds_up_to(given.longest);
  std::vector<int64_t> sizes;
  for (const int64_t bound : bounds) sizes.push_back(std::max<int64_t>(1, given.batch / bound));
  const auto with_length = [](const Source& from, const char* function, const char* field,
                              int64_t length) {
    return from.filter(function, {{"field", std::string(field)}, {"length", length}});
  };
  const auto whole = [&](const Source& from) {
    return with_length(with_length(from, "longer_than", "source", 1), "longer_than", "target", 2);
  };
  const auto short_enough = [&](const Source& from) {
    return with_length(with_length(from, "shorter_than", "source", given.longest + 1),
                       "shorter_than", "target", given.longest + 1);
  };
  return {short_enough(whole(all))
              .cache()
              .shuffle(kOrder, given.seed)
              .bucket("target", bounds, sizes, Vocabulary::kPad),
          short_enough(whole(pairs_of(held, pieces)))
              .batch(kAtOnce, {.pad = true, .padding = Vocabulary::kPad}),
          pairs, tokens, left_out};
}

Lines read_lines(const std::vector<std::string>& paths, const Pieces& pieces) {
  const std::vector<std::string> fields = {"source", "target"};
  const Source source =
      Source::of("lines",
                 {{"paths", paths},
                  {"parallel", true},
                  {"fields", std::vector<std::string>(
                                 fields.begin(),
                                 fields.begin() + static_cast<std::ptrdiff_t>(paths.size()))}})
          .map("tokenize", pieces.arguments("source", false));
  Lines out;
  Source::Records records = source.records();
  while (const auto record = records.next()) {
    const auto ids = (*record)[0].values<int64_t>();
    out.ids.emplace_back(ids.begin(), ids.end());
    if (paths.size() < 2) continue;
    const Tensor& text = (*record)[1];
    try {
      out.references.push_back(tokenize(
          {reinterpret_cast<const char*>(text.data<uint8_t>()), static_cast<size_t>(text.size())},
          TokenKind::words));
    } catch (const Error& e) {
      throw Error(e.code(), paths[1], ": line ", out.ids.size(), ": ", e.what());
    }
  }
  return out;
}
