// Functions of sources over text: ids of tokens, lengths, windows, and arguments they refuse.
#include <numeric>
#include <set>
#include <thread>

#include "tests/data/text/reading.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {
namespace {

using Ids = std::vector<int64_t>;

const Fields kText = {{"text", {DType::u8, {-1}}}, {"label", {DType::i64, {}}}};

// One record of a step's input, "line 7" its place.
struct OneCall {
  OneCall(const Fields& fields, Record record)
      : fields(fields), record(std::move(record)), call(this->fields, this->record, 1, place) {}
  const Fields fields;
  const Record record;
  const std::string place = "train.en: line 7";
  const SourceCall call;
};

Record text_record(std::string_view text) {
  return {text_tensor(text), Tensor::scalar<int64_t>(5)};
}

Ids ids_of(const Tensor& t) { return {t.values<int64_t>().begin(), t.values<int64_t>().end()}; }

Ids tokenized(const SourceStep& step, std::string_view text) {
  return ids_of(step.map(OneCall(kText, text_record(text)).call)[0]);
}

Tensor row(const Ids& ids) {
  return Tensor::of<int64_t>(std::span<const int64_t>(ids), {static_cast<int64_t>(ids.size())});
}

// Ids: a 4, b 5, é 6, "\n" 7.
const std::string kVocabulary = "<pad>\n<unk>\n<s>\n</s>\na\nb\né\n\\n\n";

TEST_CASE("tokenize gives ids by each kind, and keeps the other fields") {
  const TempFile vocabulary("functions-vocabulary", kVocabulary);
  const auto step = [&](const char* kind) {
    return bound("tokenize", kText,
                 {{"kind", std::string(kind)}, {"vocabulary", vocabulary.path()}});
  };
  const SourceStep words = step("words");
  CHECK(words.fields == Fields{{"text", {DType::i64, {-1}}}, {"label", {DType::i64, {}}}});
  CHECK(tokenized(words, "A b, É!\n") == Ids{4, 5, 1, 6, 1});
  CHECK(tokenized(words, "").empty());
  CHECK(words.map(OneCall(kText, text_record("a")).call)[1].item<int64_t>() == 5);
  CHECK(tokenized(step("characters"), "ab\né") == Ids{4, 5, 7, 6});
  CHECK(tokenized(step("whitespace"), "a A\nb") == Ids{4, 1, 5});
}

TEST_CASE("tokenize marks begin, end and line ends, and cuts or refuses what is too long") {
  const TempFile vocabulary("functions-vocabulary", kVocabulary);
  SourceArgs args = {{"kind", std::string("words")},
                     {"vocabulary", vocabulary.path()},
                     {"begin", true},
                     {"end", true}};
  CHECK(tokenized(bound("tokenize", kText, args), "a b") == Ids{2, 4, 5, 3});
  args["max_length"] = int64_t{4};
  const SourceStep refuses = bound("tokenize", kText, args);
  CHECK(tokenized(refuses, "a b") == Ids{2, 4, 5, 3});
  check_error(
      Errc::bad_data, [&] { tokenized(refuses, "a b a"); },
      "train.en: line 7: the text has 5 tokens, more than max_length = 4");
  args["longer"] = std::string("cut");
  CHECK(tokenized(bound("tokenize", kText, args), "a b a a") == Ids{2, 4, 5, 3});
  args["end"] = false;
  CHECK(tokenized(bound("tokenize", kText, args), "a b a a") == Ids{2, 4, 5, 4});
  args = {{"kind", std::string("words")}, {"vocabulary", vocabulary.path()}, {"line_ends", true}};
  CHECK(tokenized(bound("tokenize", kText, args), "a\n\nb a\nb") == Ids{4, 3, 3, 5, 4, 3, 5});
}

TEST_CASE("tokenize gives pieces of words, also in several threads") {
  const Bpe bpe = Bpe::train({{"low", 5}, {"lower", 2}, {"newest", 6}}, 6);
  const TempFile merges("functions-bpe", "");
  bpe.write(merges.path());
  const Vocabulary v = Vocabulary::of(bpe.counts({{"low", 5}, {"lower", 2}, {"newest", 6}}));
  const TempFile vocabulary("functions-vocabulary", "");
  v.write(vocabulary.path());
  const SourceArgs args = {
      {"kind", std::string("bpe")}, {"vocabulary", vocabulary.path()}, {"merges", merges.path()}};
  const std::string text = "Lower, newest low! lowest.";
  const Ids expected = v.ids(bpe.encode(tokenize(text, TokenKind::words)));
  CHECK(expected.size() > 6);
  const SourceStep step = bound("tokenize", kText, args);
  std::vector<Ids> got(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& mine : got)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) mine = tokenized(step, text);
      });
  }
  for (const Ids& mine : got) CHECK(mine == expected);
  SourceArgs plain = args;
  plain["split"] = std::string("whitespace");
  CHECK(tokenized(bound("tokenize", kText, plain), "low! low") ==
        v.ids(bpe.encode(tokenize("low! low", TokenKind::whitespace))));
}

TEST_CASE("tokenize refuses text that is not UTF-8, and a vocabulary of another model") {
  const TempFile vocabulary("functions-vocabulary", kVocabulary);
  SourceArgs args = {{"kind", std::string("words")}, {"vocabulary", vocabulary.path()}};
  check_error(
      Errc::bad_data, [&] { tokenized(bound("tokenize", kText, args), "abc\xff"); },
      "train.en: line 7: byte 3 (0xff) is not UTF-8");
  args["vocabulary_size"] = int64_t{8};
  bound("tokenize", kText, args);
  args["vocabulary_size"] = int64_t{9};
  check_error(
      Errc::bad_configuration, [&] { bound("tokenize", kText, args); },
      "the vocabulary has 8 words, the model 9");
  args.erase("vocabulary_size");
  args["fingerprint"] = std::string("12ab");
  check_error(
      Errc::bad_configuration, [&] { bound("tokenize", kText, args); },
      "the model's has 00000000000012ab");
}

TEST_CASE("arguments of tokenize that do not fit are refused") {
  const TempFile vocabulary("functions-vocabulary", kVocabulary);
  const SourceArgs good = {{"kind", std::string("words")}, {"vocabulary", vocabulary.path()}};
  const auto refused = [&](const SourceArgs& more, const Fields& fields = kText) {
    SourceArgs args = more;
    args.insert(good.begin(), good.end());
    return error_text(Errc::invalid_argument, [&] { bound("tokenize", fields, args); });
  };
  has(refused({{"field", std::string("en")}}), "tokenize finds no field en; the records have text");
  has(refused({{"field", std::string("label")}}), "tokenize wants text, u8 [-1], but label is i64");
  has(refused({{"kind", std::string("word")}}), "tokenize knows no kind \"word\"; it knows words");
  has(refused({{"kind", std::string("bpe")}}),
      "wants the arguments merges and split with the kind");
  has(refused({{"merges", std::string("a")}}), "merges and split only with the kind bpe");
  has(refused({{"kind", std::string("bpe")},
               {"merges", std::string("a")},
               {"split", std::string("x")}}),
      "tokenize knows no split \"x\"");
  has(refused({{"kind", std::string("bpe")},
               {"merges", std::string("a")},
               {"split", std::string("characters")}}),
      "wants split = words or whitespace");
  has(refused({{"max_length", int64_t{-1}}}), "wants a max_length of 0 (any) or more");
  has(refused({{"longer", std::string("drop")}}), "longer = refuse or cut, got 0 and \"drop\"");
  has(refused({{"fingerprint", std::string("xyz")}}), "hexadecimal digits as fingerprint");
  has(refused({{"ends", true}}), "tokenize has no argument ends; it takes field, begin, end");
}

TEST_CASE("shorter_than and longer_than keep records by the length of a field") {
  const auto keeps = [](const char* name, int64_t length, const char* text) {
    const SourceStep step = bound(name, kText, {{"length", length}});
    return step.keep(OneCall(kText, text_record(text)).call);
  };
  CHECK(keeps("shorter_than", 3, "ab"));
  CHECK(!keeps("shorter_than", 3, "abc"));
  CHECK(keeps("longer_than", 0, "a"));
  CHECK(!keeps("longer_than", 0, ""));
  CHECK(!keeps("longer_than", 3, "abc"));
  check_invalid(
      [] {
        bound("longer_than", kText, {{"length", int64_t{1}}, {"field", std::string("label")}});
      },
      "longer_than wants a field with a dimension, label has none");
  check_invalid([] { bound("shorter_than", kText, {}); }, "shorter_than wants the argument length");
}

TEST_CASE("windows are inputs and the same shifted by one, as far as they are full") {
  const Fields fields = {{"text", {DType::i64, {-1}}}};
  const auto windows = [&](const Ids& ids, const SourceArgs& args) {
    const SourceStep step = bound("windows", fields, args);
    CHECK(step.same_count);
    std::string out;
    for (const Record& r : results_of(step.expand(OneCall(fields, {row(ids)}).call))) {
      for (const Tensor& t : r)
        for (const int64_t id : ids_of(t)) out += static_cast<char>('0' + id);
      out += ' ';
    }
    return out;
  };
  const Ids ids = {0, 1, 2, 3, 4, 5, 6};
  CHECK(windows(ids, {{"length", int64_t{3}}}) == "012123 345456 ");
  CHECK(windows(ids, {{"length", int64_t{4}}}) == "01231234 ");
  CHECK(windows(ids, {{"length", int64_t{3}}, {"stride", int64_t{1}}}) ==
        "012123 123234 234345 345456 ");
  CHECK(windows({1, 2}, {{"length", int64_t{1}}}) == "12 ");
  CHECK(windows({1}, {{"length", int64_t{1}}}).empty());
  CHECK(windows({}, {{"length", int64_t{2}}}).empty());
  CHECK(bound("windows", kText, {{"length", int64_t{9}}}).fields ==
        Fields{{"inputs", {DType::u8, {9}}}, {"targets", {DType::u8, {9}}}});
  check_invalid(
      [&] {
        windows({}, {{"length", int64_t{0}}});
      },
      "windows wants a length and a stride of at least 1, got 0 and 0");
  check_invalid(
      [] {
        bound("windows", kText, {{"field", std::string("label")}, {"length", int64_t{1}}});
      },
      "windows wants a field of one dimension, label is []");
}

TEST_CASE("windows may begin at a drawn element, as many in every epoch") {
  const Fields fields = {{"text", {DType::i64, {-1}}}};
  const auto first_ids = [&](int64_t n, uint64_t key) {
    Ids ids(static_cast<size_t>(n)), out;
    std::iota(ids.begin(), ids.end(), 0);
    const SourceStep step =
        bound("windows", fields, {{"length", int64_t{4}}, {"offset", std::string("drawn")}});
    CHECK(step.same_count);
    const Record record = {row(ids)};
    for (const Record& r : results_of(step.expand(SourceCall(fields, record, key, "text")))) {
      out.push_back(ids_of(r[0]).front());
      CHECK(ids_of(r[1]).back() == out.back() + 4);
      CHECK(ids_of(r[1]).back() < n);
    }
    return out;
  };
  std::set<int64_t> offsets;
  for (uint64_t key = 0; key < 100; ++key) {
    const Ids first = first_ids(30, key);  // 26 places: 7 windows for offsets 0 and 1, else 6
    CHECK(first.size() == 6);
    CHECK(first[1] == first[0] + 4);
    offsets.insert(first[0]);
    CHECK(first_ids(6, key).size() == 1);
    CHECK(first_ids(4, key).empty());
  }
  CHECK(offsets == std::set<int64_t>{0, 1, 2, 3});
  CHECK(first_ids(30, 5) == first_ids(30, 5));
  check_invalid(
      [&] {
        bound("windows", fields, {{"length", int64_t{4}}, {"offset", std::string("any")}});
      },
      "windows wants offset = first or drawn, got \"any\"");
}

}  // namespace
}  // namespace troupe
