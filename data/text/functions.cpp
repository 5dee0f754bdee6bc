// Functions of sources over text: tokens as ids, selection by length, and windows.
#include <algorithm>
#include <charconv>
#include <optional>

#include "data/random.hpp"
#include "data/source/fields.hpp"
#include "data/text/parts.hpp"
#include "data/text/utf8.hpp"
#include "data/text/word_cache.hpp"
#include "data/text/words.hpp"

namespace troupe {
namespace {

constexpr size_t kCachedWordsMax = 1 << 20;

// The number of the field that the argument `field` names; `text` by default.
size_t wanted_field(ArgReader& read, const Fields& inputs, std::string_view of) {
  return field_number(inputs, read.get<std::string>("field", kTextField), of);
}

void check_row(const Field& field, std::string_view of) {
  if (field.type.shape.ndim() != 1)
    throw Error(Errc::invalid_argument, of, " wants a field of one dimension, ", field.name, " is ",
                field.type.shape);
}

Tensor ids_tensor(std::span<const int64_t> ids) {
  return Tensor::of<int64_t>(ids, Shape{static_cast<int64_t>(ids.size())});
}

Record with(const Record& record, size_t number, Tensor value) {
  Record out = record;
  out[number] = std::move(value);
  return out;
}

// Ids of the tokens of a text.
class Tokenizer {
 public:
  Tokenizer(TokenKind kind, Vocabulary vocabulary, std::optional<Bpe> bpe)
      : kind_(kind), vocabulary_(std::move(vocabulary)), bpe_(std::move(bpe)) {}

  // Requires: well-formed UTF-8.
  void add(std::string_view text, std::vector<int64_t>& ids) const {
    std::string scratch;
    if (!bpe_)
      return each_token(text, kind_, scratch,
                        [&](std::string_view token) { ids.push_back(vocabulary_.id(token)); });
    cache_.run([&](auto&& word) { each_token(text, kind_, scratch, word); },
               [&](std::string_view word) { return vocabulary_.ids(bpe_->pieces(word)); },
               [&](const std::vector<int64_t>& pieces) {
                 ids.insert(ids.end(), pieces.begin(), pieces.end());
               });
  }

 private:
  const TokenKind kind_;
  const Vocabulary vocabulary_;
  const std::optional<Bpe> bpe_;
  mutable WordCache<std::vector<int64_t>> cache_{kCachedWordsMax};  // of words, with bpe_
};

TokenKind kind_of(const std::string& name, std::string_view argument) {
  if (name == "words") return TokenKind::words;
  if (name == "whitespace") return TokenKind::whitespace;
  if (name == "characters") return TokenKind::characters;
  throw Error(Errc::invalid_argument, "tokenize knows no ", argument, " ", in_quotes(name),
              "; it knows words, characters, whitespace and bpe");
}

std::optional<uint64_t> fingerprint_of(const std::string& hex) {
  if (hex.empty()) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), number, 16);
  if (error != std::errc() || end != hex.data() + hex.size())
    throw Error(Errc::invalid_argument,
                "tokenize wants up to 16 hexadecimal digits as "
                "fingerprint, got ",
                in_quotes(hex));
  return number;
}

// Reads `vocabulary`, `vocabulary_size`, `fingerprint`, `kind`, `merges` and `split`.
std::shared_ptr<const Tokenizer> read_tokenizer(ArgReader& read) {
  const auto kind = read.want<std::string>("kind");
  const auto path = read.want<std::string>("vocabulary");
  const auto size = read.get<int64_t>("vocabulary_size", 0);
  const auto fingerprint = fingerprint_of(read.get<std::string>("fingerprint", {}));
  const bool bpe = kind == "bpe";
  const auto merges = read.get<std::string>("merges", {});
  const auto split = read.get<std::string>("split", bpe ? "words" : "");
  if (bpe != !merges.empty() || bpe != !split.empty())
    throw Error(Errc::invalid_argument, "tokenize wants the arguments merges and split ",
                bpe ? "with" : "only with", " the kind bpe");
  const TokenKind tokens = kind_of(bpe ? split : kind, bpe ? "split" : "kind");
  if (bpe && tokens == TokenKind::characters)
    throw Error(Errc::invalid_argument, "byte-pair encoding wants split = words or whitespace");
  Vocabulary vocabulary = Vocabulary::read(path);
  if (size != 0 || fingerprint) vocabulary.require(size ? size : vocabulary.size(), fingerprint);
  return std::make_shared<Tokenizer>(tokens, std::move(vocabulary),
                                     bpe ? std::optional(Bpe::read(merges)) : std::nullopt);
}

SourceStep bind_length(const char* of, const Fields& inputs, const SourceArgs& args, bool shorter) {
  ArgReader read(of, args);
  const size_t number = wanted_field(read, inputs, of);
  const auto length = read.want<int64_t>("length");
  read.done();
  if (inputs[number].type.shape.ndim() < 1)
    throw Error(Errc::invalid_argument, of, " wants a field with a dimension, ",
                inputs[number].name, " has none");
  SourceStep out;
  out.keep = [number, length, shorter](const SourceCall& call) {
    const int64_t n = call.record()[number].dim(0);
    return shorter ? n < length : n > length;
  };
  return out;
}

}  // namespace

SourceStep bind_tokenize(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("tokenize", args);
  const size_t number = wanted_field(read, inputs, "tokenize");
  const bool begin = read.get<bool>("begin", false), end = read.get<bool>("end", false),
             line_ends = read.get<bool>("line_ends", false);
  const auto length_max = read.get<int64_t>("max_length", 0);
  const auto longer = read.get<std::string>("longer", "refuse");
  const auto tokenizer = read_tokenizer(read);
  read.done();
  if (inputs[number].type != TensorType{DType::u8, {-1}})
    throw Error(Errc::invalid_argument, "tokenize wants text, u8 [-1], but ", inputs[number].name,
                " is ", inputs[number].type.dtype, " ", inputs[number].type.shape);
  if (length_max < 0 || (longer != "refuse" && longer != "cut"))
    throw Error(Errc::invalid_argument,
                "tokenize wants a max_length of 0 (any) or more and longer "
                "= refuse or cut, got ",
                length_max, " and ", in_quotes(longer));
  SourceStep out;
  out.fields = inputs;
  out.fields[number].type = {DType::i64, {-1}};
  out.map = [=](const SourceCall& call) {
    const std::string_view text = text_of(call.record()[number]);
    if (invalid_utf8(text) != text.npos) check_utf8(text, call.place());
    std::vector<int64_t> ids;
    if (begin) ids.push_back(Vocabulary::kBegin);
    if (!line_ends) tokenizer->add(text, ids);
    for (size_t at = 0; line_ends && at < text.size();) {
      const size_t stop = std::min(text.find('\n', at), text.size());
      tokenizer->add(text.substr(at, stop - at), ids);
      if (stop < text.size()) ids.push_back(Vocabulary::kEnd);
      at = stop + 1;
    }
    if (end) ids.push_back(Vocabulary::kEnd);
    if (const auto n = static_cast<int64_t>(ids.size()); length_max > 0 && n > length_max) {
      if (longer == "refuse")
        throw call.bad("the text has ", n, " tokens, more than max_length = ", length_max,
                       "; say longer = cut, or leave such texts out by shorter_than");
      ids.resize(static_cast<size_t>(length_max));
      if (end) ids.back() = Vocabulary::kEnd;
    }
    return with(call.record(), number, ids_tensor(ids));
  };
  return out;
}

SourceStep bind_shorter_than(const Fields& inputs, const SourceArgs& args) {
  return bind_length("shorter_than", inputs, args, true);
}
SourceStep bind_longer_than(const Fields& inputs, const SourceArgs& args) {
  return bind_length("longer_than", inputs, args, false);
}

SourceStep bind_windows(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("windows", args);
  const size_t number = wanted_field(read, inputs, "windows");
  const auto length = read.want<int64_t>("length");
  const auto stride = read.get<int64_t>("stride", length);
  const auto offset = read.get<std::string>("offset", "first");
  read.done();
  check_row(inputs[number], "windows");
  if (length < 1 || stride < 1)
    throw Error(Errc::invalid_argument, "windows wants a length and a stride of at least 1, got ",
                length, " and ", stride);
  if (offset != "first" && offset != "drawn")
    throw Error(Errc::invalid_argument, "windows wants offset = first or drawn, got ",
                in_quotes(offset));
  SourceStep out;
  const TensorType type = {inputs[number].type.dtype, {length}};
  out.fields = {{"inputs", type}, {"targets", type}};
  out.expand = [=, drawn = offset == "drawn"](const SourceCall& call) {
    const Tensor& all = call.record()[number];
    const int64_t places = std::max<int64_t>(0, all.dim(0) - length);  // where a window may begin
    int64_t first = 0, count = places / stride + (places % stride != 0 ? 1 : 0);
    if (drawn && places > 0) {  // as many windows as the last offset leaves
      const int64_t offsets = std::min(stride, places);
      first = static_cast<int64_t>(SplitMix{call.key()}.below(static_cast<uint64_t>(offsets)));
      count = std::max<int64_t>(1, places / stride);
    }
    return Expansion(count, [=](int64_t i) {
      const int64_t at = first + i * stride;
      return Record{all.rows(at, at + length), all.rows(at + 1, at + length + 1)};
    });
  };
  return out;
}

}  // namespace troupe
