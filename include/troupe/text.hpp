// Text: tokens, vocabularies and byte-pair encoding. Implemented in data/text/.
//
//   const WordCounts counts = count_words({"train.en.gz"}, TokenKind::words);
//   Vocabulary::of(counts, {.min_count = 2}).write("en.vocab");  // of words, or of parts of words:
//   const Bpe bpe = Bpe::train(counts, 8000);
//   bpe.write("en.bpe");
//   Vocabulary::of(bpe.counts(counts)).write("en.vocab");
//
// Text is UTF-8; bytes that are not are an Error(bad_data) with their offset. Files may be gzipped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "troupe/error.hpp"

namespace troupe {

enum class TokenKind : uint8_t {
  // In lower case and NFC: runs of letters, marks and digits (Unicode), with a `.` or `,` between
  // two digits; each punctuation character or symbol is a token of its own, so "L'été, 3.5" gives
  // l ' été , 3.5. Controls and formats such as soft hyphens are left out. For scripts that put
  // space between words.
  words,
  characters,  // code points, white space too
  whitespace,  // runs of anything but white space, unchanged
};

// Throws: Error(bad_data) with the offset of bytes that are not UTF-8.
std::vector<std::string> tokenize(std::string_view text, TokenKind kind);
// Text of tokens. For `words` an approximation, as spaces and capitals are gone: no space before
// closing punctuation, after opening punctuation, and around apostrophe, hyphen and slash.
std::string detokenize(std::span<const std::string> tokens, TokenKind kind);

struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};
// How often each word stands in some texts.
using WordCounts = std::unordered_map<std::string, int64_t, WordHash, std::equal_to<>>;

// Counts the tokens of `text`. Throws: as tokenize().
void add_words(WordCounts& counts, std::string_view text, TokenKind kind);
// The tokens of files, line by line, without a byte order mark; for `characters` a line end counts
// as "\n". Paths are as those of readers below. Throws: Error(io); Error(bad_data) with the line.
WordCounts count_words(const std::vector<std::string>& paths, TokenKind kind);

// Words and their numbers: 0 to 3 are the special tokens, then others. A handle; copies are cheap,
// and any thread may call.
class Vocabulary {
 public:
  // "<pad>" fills batches, "<unk>" stands for other words, "<s>" and "</s>" for begin and end.
  static constexpr int64_t kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3;

  struct Options {
    int64_t min_count = 1;  // of a word that gets a number
    int64_t size_max = 0;   // words with the special ones; 0: any number
  };
  // The most frequent words first, equally frequent ones in the order of their bytes. Words spelt
  // like a special token are that token. Throws: Error(invalid_argument) for options below their
  // limits, and for an empty word.
  static Vocabulary of(const WordCounts& counts, const Options& options);
  static Vocabulary of(const WordCounts& counts) { return of(counts, Options{}); }

  // A file of UTF-8 with a word a line: line i + 1 has the word of id i, the first four the special
  // tokens. LF, CR and backslash in a word are written \n, \r and \\. Throws: Error(io);
  // Error(bad_data) with the line for a word that stands twice, an empty line, bad UTF-8, and a
  // special token that is missing.
  static Vocabulary read(const std::string& path);
  void write(const std::string& path) const;  // Throws: Error(io).

  int64_t size() const;
  int64_t id(std::string_view word) const;  // kUnknown for words that it does not have
  // Throws: Error(invalid_argument) for an id out of range.
  const std::string& word(int64_t id) const;
  std::vector<int64_t> ids(std::span<const std::string> words) const;
  // As far as the first kEnd, without kPad and kBegin. Throws: as word().
  std::vector<std::string> words(std::span<const int64_t> ids) const;
  // How often each id stands in the texts that were counted; kUnknown: all other words together.
  std::vector<int64_t> counts(const WordCounts& counts) const;

  // A hash (64-bit FNV-1a) of all words in their order, the same on every machine.
  uint64_t fingerprint() const;
  // Throws: Error(bad_configuration) that names both sides, if the vocabulary cannot be that of a
  // model with `size` words (the rows of its embedding) or, where given, of this fingerprint.
  void require(int64_t size, std::optional<uint64_t> fingerprint = {}) const;

 private:
  struct State;
  explicit Vocabulary(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// Byte-pair encoding within words (Sennrich, Haddow and Birch 2016): a word is its characters, the
// last of which carries the mark of the end of a word, and merges join neighbours in their order.
// Each piece but the last of a word ends with "@@": "lower" is "low@@ er". Files and results are
// those of subword-nmt. A handle; copies are cheap, and any thread may call.
class Bpe {
 public:
  // At most `merges` times the most frequent pair of neighbours becomes one symbol, of equally
  // frequent pairs the one whose bytes are last; ends before a pair that is there less than
  // `min_count` times. Throws: Error(invalid_argument) for a number below 1 and for words that are
  // empty or have a space or a line end in them.
  static Bpe train(const WordCounts& counts, int64_t merges, int64_t min_count = 2);

  // "#version: 0.2", then a merge a line: two symbols and a space between them. Throws: Error(io);
  // Error(bad_data) with the line.
  static Bpe read(const std::string& path);
  void write(const std::string& path) const;  // Throws: Error(io).

  int64_t size() const;  // merges
  // The pieces of words, remembered for the first million of different ones. Throws:
  // Error(bad_data) for a word that is not UTF-8 or longer than 64 KiB.
  std::vector<std::string> encode(std::span<const std::string> words) const;
  std::vector<std::string> pieces(std::string_view word) const;  // of one word, not remembered
  std::vector<std::string> decode(std::span<const std::string> pieces) const;  // words
  // How often each piece stands in the texts whose words were counted.
  WordCounts counts(const WordCounts& words) const;

 private:
  struct State;
  explicit Bpe(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Readers of sources (troupe/source.hpp) with their arguments. A file is plain or gzipped; one of
// `paths` may be a folder, for its files, or have the wildcards `*`, `?` and `[...]`.
//
// lines: the lines of files, one record each; larger than memory.
//   paths      one after the other; fields: the name of the one field, "text" by default
//   parallel   true: side by side, a field for each path, named by `fields`; all have equally many
//              lines. Several files that match a pattern are one after the other.
//   skip_empty true: without records in which a line is empty
//   line_bytes_max  a longer line is refused; 1 MiB by default
// documents: each of the files `paths` is one record, with the field "text". With `tokenize` and
//   `windows` it gives a language model its sequences; a document is in memory as long as one of
//   its windows is.
// csv: a table with a header line, which it reads into memory by columns. The fields are the
//   columns by name: numbers as f32 [], others as the arguments say.
//   path, separator   "," by default
//   text       columns that are text, u8 [-1]; ignore: columns that are left out
//   categories columns of words as codes, i64 []: the number of the word among all of the column,
//              sorted by their bytes, or in the list that the argument NAME.values gives
//   label      the column of the field "label", the last one: i64, f32 by label_type = "f32", or
//              the code if it stands in `categories`
//   missing    "refuse" (by default) a number or category that is one of `missing_words` (nothing,
//              "?", "NA", "NaN", "nan" by default); or fill numbers in: "mean", "zero", "nan"
//   stack      true: all numbers but the label are one field "features", f32 [columns], the first
//
// Functions of sources; `field` is the field they look at, "text" by default.
//
// tokenize: text, u8 [-1], becomes the ids of its tokens, i64 [-1]; other fields stay.
//   kind       "words", "characters", "whitespace", or "bpe": the pieces of words
//   vocabulary, merges   paths of their files; merges, and split = "words" (by default) or
//              "whitespace", for bpe
//   begin, end true: kBegin before, kEnd behind; line_ends true: kEnd for each line end in the text
//   max_length of ids with these marks, 0: any; longer = "refuse" (by default), or "cut", which
//              keeps the mark of the end
//   vocabulary_size, fingerprint   the model's, the latter as hexadecimal digits: another
//              vocabulary is refused
// shorter_than, longer_than: keep records whose field has fewer, or more, than `length` rows.
// windows: cuts a field [n] into records of `inputs` [length] and `targets` [length], the same
//   shifted by one; one begins every `stride` elements, `length` by default. Elements at the end
//   that fill no window, and other fields, are left out. No element is copied.
//   offset     "first" (by default): the first window begins with the first element; "drawn": with
//              one of the first `stride`, anew for each record in each epoch. The number of windows
//              is the same in every epoch, so "drawn" may leave one out that would fit
// skip_grams: pairs of a word `centre` and a word `context` near it (Mikolov et al. 2013) from a
//   field of ids, i64 [-1], or of rows of them, as in a padded batch; drawn anew in each epoch.
//   window     of word i has the words from i - b to i + b, b uniform in 1 ... window; 5 by default
//   subsample  threshold t: a word whose share of all words is f stays with sqrt(t / f), before
//              windows are cut; 0: all stay
//   counts     of words by id, for `subsample`, as of Vocabulary::counts()
//   first_id   smaller ids are left out; by default the special tokens
//   per        "pair" (by default), for expand(): a record each, i64 []. "record", for map(): all
//              pairs of a record or batch are one, i64 [pairs]; costs less by an order of magnitude

}  // namespace troupe
