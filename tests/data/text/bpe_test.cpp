// Bpe: merges and pieces against those of subword-nmt, its file, and words that it refuses.
#include <thread>

#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/text.hpp"

namespace troupe {
namespace {

using Words = std::vector<std::string>;

// The next two by subword-nmt 0.3.8: `learn-bpe -s 40` of the text gives the merges.
constexpr const char* kText =
    "the lowest tower is lower than the newest tower\n"
    "a new low , a newer lower low , the widest window\n"
    "der größte Löwe läuft größer als der größere Löwe\n"
    "l ' été n ' est pas l ' hiver , les étés ne sont pas les hivers\n"
    "banana bananas anana aaaa aaaaa mississippi\n";
constexpr const char* kMerges =
    "#version: 0.2\ne r</w>\na n\nw er</w>\nl o\na a\nt h\ns t</w>\ne st</w>\nö ß\n"
    "th e</w>\nr öß\nn e\ng röß\nan an\na s</w>\nö w\nöw e</w>\né t\nw i\nw est</w>\n"
    "t o\nto wer</w>\ns s\nss i\np as</w>\nlo wer</w>\nlo w</w>\nl e\nle s</w>\ni v\n"
    "h iv\ne r\nd er</w>\nb anan\nL öwe</w>\n";

WordCounts counts_of(const std::string& text) {
  WordCounts counts;
  add_words(counts, text, TokenKind::whitespace);
  return counts;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string written(const Bpe& bpe) {
  const TempFile file("bpe-written", "");
  bpe.write(file.path());
  return bytes_of(file.path());
}

Words encoded(const Bpe& bpe, const std::string& text) {
  return bpe.encode(tokenize(text, TokenKind::whitespace));
}

TEST_CASE("merges that are learnt are those of subword-nmt") {
  CHECK(written(Bpe::train(counts_of(kText), 40)) == kMerges);
  CHECK(Bpe::train(counts_of(kText), 7).size() == 7);
  CHECK(Bpe::train(counts_of(kText), 1000, 5).size() == 5);
  CHECK(Bpe::train({}, 10).size() == 0);
}

TEST_CASE("pieces of words are those of subword-nmt, and become words again") {
  const TempFile file("bpe", kMerges);
  const Bpe bpe = Bpe::read(file.path());
  struct Case {
    std::string text, pieces;  // by `apply-bpe`
  };
  const std::vector<Case> cases = {
      {"the lowest newcomer lowers towers",
       "the lo@@ west ne@@ w@@ c@@ o@@ m@@ er lo@@ w@@ er@@ s to@@ w@@ er@@ s"},
      {"größtes Löwenhaus étais hiver x 日本語",
       "größ@@ t@@ e@@ s L@@ öw@@ e@@ n@@ h@@ a@@ u@@ s ét@@ a@@ i@@ s hiv@@ er x 日@@ 本@@ 語"},
      {"aaaaaaa bananarama", "aa@@ aa@@ aa@@ a banan@@ a@@ r@@ a@@ m@@ a"},
      {"", ""},
  };
  for (const Case& c : cases)
    for (int again = 0; again < 2; ++again) {  // the second time remembered
      CAPTURE(c.text);
      const Words pieces = encoded(bpe, c.text);
      CHECK(detokenize(pieces, TokenKind::whitespace) == c.pieces);
      CHECK(bpe.decode(pieces) == tokenize(c.text, TokenKind::whitespace));
    }
  CHECK(bpe.decode(Words{"lo@@", "w@@"}) == Words{"low"});  // cut off
}

TEST_CASE("merges that are written and read give the same pieces") {
  const Bpe bpe = Bpe::train(counts_of(kText), 25);
  const TempFile file("bpe", written(bpe)), packed("bpe-gz", gzip(written(bpe)));
  for (const std::string& path : {file.path(), packed.path()}) {
    CHECK(written(Bpe::read(path)) == written(bpe));
    CHECK(encoded(Bpe::read(path), kText) == encoded(bpe, kText));
  }
}

TEST_CASE("pieces are counted as often as their words") {
  const Bpe bpe = Bpe::train(counts_of(kText), 40);
  const WordCounts words = {{"lowers", 3}, {"low", 2}};
  CHECK(bpe.counts(words) ==
        WordCounts{{"lo@@", 3}, {"w@@", 3}, {"er@@", 3}, {"s", 3}, {"low", 2}});
}

TEST_CASE("several threads encode with one Bpe") {
  const Bpe bpe = Bpe::train(counts_of(kText), 40);
  const Words expected = encoded(Bpe::train(counts_of(kText), 40), kText);
  std::vector<Words> got(4);
  {
    std::vector<std::jthread> threads;
    for (Words& mine : got)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) mine = encoded(bpe, kText);
      });
  }
  for (const Words& mine : got) CHECK(mine == expected);
}

TEST_CASE("a file that has no merges is refused with its line") {
  struct Case {
    const char* name;
    std::string text;
    const char* message;
  };
  const std::string head = "#version: 0.2\n";
  const std::vector<Case> cases = {
      {"empty", "", "expected \"#version: 0.2\" in line 1, found \"\""},
      {"an old version", "e r\n", "expected \"#version: 0.2\" in line 1, found \"e r\""},
      {"another version", "#version: 0.3\n", "found \"#version: 0.3\""},
      {"one symbol", head + "a b\nab\n", "line 3: expected two symbols with a space between them"},
      {"three symbols", head + "a b c\n", "line 2: expected two symbols with a space between them"},
      {"an empty symbol", head + " b\n", "line 2: expected two symbols"},
      {"no second symbol", head + "a \n", "line 2: expected two symbols"},
      {"an empty line", head + "\na b\n", "line 2: expected two symbols"},
      {"Latin-1", head + "a b\n\xe9 t\n", "line 3: byte 0 (0xe9) is not UTF-8"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const TempFile file("bpe", c.text);
    check_error(
        Errc::bad_data, [&] { Bpe::read(file.path()); }, "test-bpe: ", c.message);
  }
  CHECK(code_of([] { Bpe::read("no-such-merges"); }) == Errc::io);
}

TEST_CASE("words that cannot be encoded or learnt from are refused") {
  const Bpe bpe = Bpe::train(counts_of(kText), 40);
  check_error(
      Errc::bad_data, [&] { bpe.encode(Words{"caf\xe9"}); }, "byte 3 (0xe9) is not UTF-8");
  check_error(
      Errc::bad_data, [&] { bpe.encode(Words{std::string(70'000, 'a')}); },
      "a word of 70000 bytes, ", "at most 65536");
  CHECK(bpe.encode(Words{std::string(60'000, 'a')}).size() == 30'001);
  check_invalid([] { Bpe::train({{"a b", 1}}, 1); }, "wants words without space, got \"a b\"");
  check_invalid([] { Bpe::train({{"", 1}}, 1); }, "wants words without space, got \"\"");
  check_invalid([] { Bpe::train({}, 0); }, "wants at least one merge");
  check_error(
      Errc::bad_data,
      [] {
        Bpe::train({{"\xff", 1}}, 1);
      },
      "byte 0 (0xff) is not UTF-8");
}

}  // namespace
}  // namespace troupe
