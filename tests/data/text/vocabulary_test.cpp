// Vocabulary: made from counts, written, read, and every file that is none.
#include <filesystem>
#include <iterator>
#include <thread>

#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/text.hpp"

namespace troupe {
namespace {

constexpr const char* kSpecials = "<pad>\n<unk>\n<s>\n</s>\n";

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("a vocabulary has the special tokens, then words by falling count and by their bytes") {
  const WordCounts counts = {{"the", 5}, {"b", 2}, {"a", 2}, {"rare", 1}, {"<unk>", 9}};
  const Vocabulary all = Vocabulary::of(counts);
  CHECK(all.size() == 8);
  CHECK(all.words(std::vector<int64_t>{4, 5, 6, 7}) ==
        std::vector<std::string>{"the", "a", "b", "rare"});
  CHECK(all.id("<unk>") == Vocabulary::kUnknown);
  CHECK(all.id("other") == Vocabulary::kUnknown);
  CHECK(all.word(Vocabulary::kPad) == "<pad>");
  CHECK(all.id("<s>") == Vocabulary::kBegin);
  CHECK(all.id("</s>") == Vocabulary::kEnd);
  CHECK(Vocabulary::of(counts, {.min_count = 2}).size() == 7);
  CHECK(Vocabulary::of(counts, {.size_max = 5}).word(4) == "the");
  CHECK(Vocabulary::of(counts, {.size_max = 5}).size() == 5);
  CHECK(Vocabulary::of({}).size() == 4);
}

TEST_CASE("ids become words up to the end token, without padding and begin") {
  const Vocabulary v = Vocabulary::of({{"a", 2}, {"b", 1}});
  const std::vector<std::string> words = {"b", "what", "a"};
  CHECK(v.ids(words) == std::vector<int64_t>{5, 1, 4});
  CHECK(v.words(std::vector<int64_t>{2, 5, 0, 1, 4, 3, 4, 99}) ==
        std::vector<std::string>{"b", "<unk>", "a"});
  check_invalid([&] { v.word(6); }, "the vocabulary has the ids 0 to 5, not 6");
  check_invalid([&] { v.words(std::vector<int64_t>{-1}); }, "not -1");
}

TEST_CASE("counts by id put all words that the vocabulary does not have together") {
  const WordCounts counts = {{"a", 5}, {"b", 3}, {"c", 2}, {"d", 1}};
  CHECK(Vocabulary::of(counts, {.min_count = 3}).counts(counts) ==
        std::vector<int64_t>{0, 3, 0, 0, 5, 3});
}

TEST_CASE("a vocabulary that is written and read is the same, whatever its words are") {
  const Vocabulary v =
      Vocabulary::of({{"\n", 9}, {"\r", 8}, {"\\", 7}, {" ", 6}, {"naïve", 5}, {"\\n", 4}});
  const TempFile file("vocabulary", "");
  v.write(file.path());
  CHECK(bytes_of(file.path()) == std::string(kSpecials) + "\\n\n\\r\n\\\\\n \nnaïve\n\\\\n\n");
  const Vocabulary again = Vocabulary::read(file.path());
  CHECK(again.size() == v.size());
  for (int64_t id = 0; id < v.size(); ++id) CHECK(again.word(id) == v.word(id));
  CHECK(again.id("naïve") == 8);
  CHECK(again.fingerprint() == v.fingerprint());
  const TempFile packed("vocabulary-gz", gzip(bytes_of(file.path())));
  CHECK(Vocabulary::read(packed.path()).fingerprint() == v.fingerprint());
  const TempFile windows("vocabulary-crlf", "<pad>\r\n<unk>\r\n<s>\r\n</s>\r\na\r\n");
  CHECK(Vocabulary::read(windows.path()).word(4) == "a");
}

TEST_CASE("a vocabulary that several write at once is whole, and nothing else is left") {
  const std::filesystem::path folder = binary_dir() + "/test-written-at-once";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder / "vocabulary";
  std::vector<std::thread> writers;
  for (const int words : {100, 2000})
    writers.emplace_back([&path, words] {
      WordCounts counts;
      for (int i = 0; i < words; ++i) counts[detail::concat("w", i)] = 1;
      for (int i = 0; i < 20; ++i) Vocabulary::of(counts).write(path);
    });
  for (std::thread& writer : writers) writer.join();
  const int64_t words = Vocabulary::read(path).size() - 4;
  CHECK((words == 100 || words == 2000));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file that is no vocabulary is refused with its line") {
  struct Case {
    const char* name;
    std::string text;
    const char* message;
  };
  const std::string s = kSpecials;
  const std::vector<Case> cases = {
      {"empty", "", "expected the special token <pad> in line 1, found the end of the file"},
      {"cut short", "<pad>\n<unk>\n", "expected the special token <s> in line 3"},
      {"words alone", "the\na\n", "line 1: expected the special token <pad>, found \"the\""},
      {"a word twice", s + "a\nb\na\n", "line 7: the word \"a\" stands in line 5 already"},
      {"a special token twice", s + "<s>\n", "line 5: the word \"<s>\" stands in line 3 already"},
      {"an empty line", s + "a\n\nb\n", "line 6: expected a word, found an empty line"},
      {"Latin-1", s + "caf\xe9\n", "line 5: byte 3 (0xe9) is not UTF-8; convert the text"},
      {"a surrogate", s + "\xed\xa0\x80\n", "line 5: byte 0 (0xed) is not UTF-8"},
      {"a long form", s + "a\xc0\xaf\n", "line 5: byte 1 (0xc0) is not UTF-8"},
      {"a cut code point", s + "a\xe2\x82\n", "line 5: byte 1 (0xe2) is not UTF-8"},
      {"a lone backslash", s + "a\\b\n", "line 5: expected n, r or \\ after the backslash in"},
      {"a last backslash", s + "a\\", "line 5: expected n, r or \\ after the backslash in"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const TempFile file("vocabulary", c.text);
    check_error(
        Errc::bad_data, [&] { Vocabulary::read(file.path()); }, "test-vocabulary: ", c.message);
  }
  CHECK(code_of([] { Vocabulary::read("no-such-vocabulary"); }) == Errc::io);
  check_error(
      Errc::io, [] { Vocabulary::of({}).write("no-such-folder/vocabulary"); },
      "cannot create no-such-folder/vocabulary.", "No such file or directory");
}

TEST_CASE("a vocabulary of another model is refused by its size or its fingerprint") {
  const Vocabulary v = Vocabulary::of({{"a", 2}, {"b", 1}}),
                   swapped = Vocabulary::of({{"a", 1}, {"b", 2}});
  CHECK(v.fingerprint() != swapped.fingerprint());
  v.require(6);
  v.require(6, v.fingerprint());
  check_error(
      Errc::bad_configuration, [&] { v.require(7); }, "the vocabulary has 6 words, the model 7");
  check_error(
      Errc::bad_configuration, [&] { v.require(6, swapped.fingerprint()); },
      "the vocabulary has the fingerprint ", ", the model's has ");
  // FNV-1a 64 of "<pad>\0<unk>\0<s>\0</s>\0", computed by a program of its own in Python.
  CHECK(Vocabulary::of({}).fingerprint() == 0x6af9385d95d99af1U);
}

TEST_CASE("options and words that no vocabulary can have are refused") {
  check_invalid([] { Vocabulary::of({}, {.min_count = 0}); }, "a min_count of at least 1");
  check_invalid([] { Vocabulary::of({}, {.size_max = 3}); }, "size_max of 0 or at least 4");
  check_invalid([] { Vocabulary::of({{"", 1}}); }, "a vocabulary has no empty word");
}

}  // namespace
}  // namespace troupe
