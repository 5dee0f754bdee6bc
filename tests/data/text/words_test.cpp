// Tokenizers: each rule on a text, counts of files, and texts that are not UTF-8.
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/text.hpp"

namespace troupe {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("words are runs of letters, marks and digits in lower case, punctuation stands alone") {
  struct Case {
    const char* name;
    std::string text;
    Words tokens;
  };
  const std::vector<Case> cases = {
      {"nothing", "", {}},
      {"white space alone", " \t\r\n\u00a0\u2028\u0085", {}},
      {"a sentence", "Two men, one dog.", {"two", "men", ",", "one", "dog", "."}},
      {"French", "L'été À l’Œuvre!", {"l", "'", "été", "à", "l", "’", "œuvre", "!"}},
      {"German", "Ein Mädchen: GRÖSSE, Fuß", {"ein", "mädchen", ":", "grösse", ",", "fuß"}},
      {"Greek and Cyrillic", "ΑΒΓ Москва", {"αβγ", "москва"}},
      {"Turkish dotted capital", "\u0130", {"i"}},
      {"numbers",
       "3.5 1,000 1. 2,x .5 a1.2",
       {"3.5", "1,000", "1", ".", "2", ",", "x", ".", "5", "a1.2"}},
      {"signs in a row", "--\"?!", {"-", "-", "\"", "?", "!"}},
      {"symbols and emoji", "5€ 😀a", {"5", "€", "😀", "a"}},
      {"controls and formats", std::string("a\0b\x1b", 4) + "c\u00add\ufeff", {"abcd"}},
      {"an accent apart is composed", "e\u0301T", {"ét"}},
      {"a mark alone stays", "x\u0334", {"x\u0334"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    CHECK(tokenize(c.text, TokenKind::words) == c.tokens);
  }
}

TEST_CASE("characters are code points, whitespace tokens are what stands between") {
  CHECK(tokenize("aé\n€😀 ", TokenKind::characters) == Words{"a", "é", "\n", "€", "😀", " "});
  CHECK(tokenize("", TokenKind::characters).empty());
  CHECK(tokenize(" A b.\u00a0c\u2003 \n<unk> ", TokenKind::whitespace) ==
        Words{"A", "b.", "c", "<unk>"});
  CHECK(tokenize(" ", TokenKind::whitespace).empty());
}

TEST_CASE("tokens become text again") {
  const auto again = [](const std::string& text, TokenKind kind) {
    return detokenize(tokenize(text, kind), kind);
  };
  for (const std::string text :
       {"two men, one dog.", "he said \"no!\" to a well-known (and old) man's 3.5 cars",
        "l'homme d'été/hiver: 5%… oui?", "it costs $5; \"a\" and \"b\"", ""})
    CHECK(again(text, TokenKind::words) == text);
  CHECK(again("a  b\nc ", TokenKind::characters) == "a  b\nc ");
  CHECK(again("a  b\nc ", TokenKind::whitespace) == "a b c");
}

TEST_CASE("text that is not UTF-8 is refused with the offset, by every tokenizer") {
  for (const TokenKind kind : {TokenKind::words, TokenKind::characters, TokenKind::whitespace}) {
    for (const std::string bad : {"\xff", "\x80", "\xc1\x81", "\xed\xbf\xbf", "\xf4\x90\x80\x80",
                                  "\xf5\x80\x80\x80", "\xe2\x82", "\xf0\x9f\x98"})
      for (size_t before = 0; before < 17; ++before) {
        const std::string text = std::string(before, 'x') + bad;
        check_error(
            Errc::bad_data, [&] { tokenize(text, kind); },
            "the text: byte " + std::to_string(before) + " (0x");
      }
    CHECK(tokenize("\u007f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U0010ffff", kind).size() < 10);
  }
}

TEST_CASE("words of files are counted, plain and packed, by patterns") {
  const std::string text = "The cat.\r\nthe \"cat\"\n";
  const TempFile one("count-words-1", "\xef\xbb\xbf" + text), two("count-words-2", gzip("Cat\n"));
  const WordCounts counts = count_words({binary_dir() + "/test-count-words-?"}, TokenKind::words);
  CHECK(counts == WordCounts{{"the", 2}, {"cat", 3}, {".", 1}, {"\"", 2}});
  const WordCounts characters = count_words({two.path()}, TokenKind::characters);
  CHECK(characters == WordCounts{{"C", 1}, {"a", 1}, {"t", 1}, {"\n", 1}});
  WordCounts more = count_words({two.path()}, TokenKind::whitespace);
  add_words(more, "Cat dog", TokenKind::whitespace);
  CHECK(more == WordCounts{{"Cat", 2}, {"dog", 1}});
}

TEST_CASE("files of words that are missing or malformed are named, with the line") {
  check_invalid([] { count_words({}, TokenKind::words); }, "count_words wants at least one file");
  check_error(
      Errc::io, [] { count_words({"no-such-file"}, TokenKind::words); },
      "there is no file no-such-file");
  check_error(
      Errc::io, [] { count_words({"no-such-*"}, TokenKind::words); },
      "no file matches the pattern no-such-*");
  const TempFile bad("count-words", "a\nb\xe9\n");
  check_error(
      Errc::bad_data, [&] { count_words({bad.path()}, TokenKind::words); },
      "test-count-words: line 2: byte 1 (0xe9) is not UTF-8");
}

}  // namespace
}  // namespace troupe
