// The readers lines and documents: records, places, and files that they refuse.
#include "tests/data/text/reading.hpp"
#include "tests/support/fake_files.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {
namespace {

using Texts = std::vector<std::string>;

// The texts of all records, the fields of one with "|" between them.
Texts all_texts(const Stage& stage, int64_t epoch = 0) {
  Texts out;
  for (const Record& record : all_records(stage, epoch)) {
    std::string line;
    for (const Tensor& text : record) {
      if (!line.empty() || &text != &record[0]) line += '|';
      line += text_of(text);
    }
    out.push_back(line);
  }
  return out;
}

TEST_CASE("lines of files come one after the other, in every epoch, with their places") {
  const TempFile one("lines-1",
                     "\xef\xbb\xbf"
                     "Zwölf\r\n\nb"),
      two("lines-2", gzip("c\n"));
  const Stage stage = read_stage("lines", {{"paths", Texts{binary_dir() + "/test-lines-?"}}});
  CHECK(stage->fields() == Fields{{"text", {DType::u8, {-1}}}});
  CHECK(stage->same_count());
  for (const int64_t epoch : {0, 3}) CHECK(all_texts(stage, epoch) == Texts{"Zwölf", "", "b", "c"});
  const auto stream = stage->open(0);
  stream->next();
  CHECK(stream->next()->place() == one.path() + ": line 2");
  stream->next();
  CHECK(stream->next()->place() == two.path() + ": line 1");
  CHECK(!stream->next());
  CHECK(!stream->next());
  CHECK(all_texts(read_stage("lines", {{"paths", Texts{one.path()}}, {"skip_empty", true}})) ==
        Texts{"Zwölf", "b"});
}

TEST_CASE("files side by side give a field each, and skip a line that is empty in one") {
  const TempFile en("lines-en", "one\n\nthree\n"), de("lines-de", "eins\nzwei\ndrei");
  SourceArgs args = {
      {"paths", Texts{en.path(), de.path()}}, {"parallel", true}, {"fields", Texts{"en", "de"}}};
  const Stage stage = read_stage("lines", args);
  CHECK(stage->fields() == Fields{{"en", {DType::u8, {-1}}}, {"de", {DType::u8, {-1}}}});
  CHECK(all_texts(stage) == Texts{"one|eins", "|zwei", "three|drei"});
  args["skip_empty"] = true;
  CHECK(all_texts(read_stage("lines", args)) == Texts{"one|eins", "three|drei"});
  args["paths"] = Texts{en.path() + "*", de.path()};
  CHECK(all_texts(read_stage("lines", args)).size() == 2);
}

TEST_CASE("files side by side with different numbers of lines are refused with the line") {
  const TempFile en("lines-en", "one\ntwo\n"), de("lines-de", "eins\nzwei\ndrei\n");
  const auto read = [&](const Texts& paths) {
    all_texts(
        read_stage("lines", {{"paths", paths}, {"parallel", true}, {"fields", Texts{"a", "b"}}}));
  };
  for (const Texts& paths : {Texts{en.path(), de.path()}, Texts{de.path(), en.path()}})
    check_error(
        Errc::bad_data, [&] { read(paths); }, "test-lines-en ends after line 2, ",
        "test-lines-de has a line 3");
}

TEST_CASE("a line is checked where its record is made, and its file and number named") {
  const TempFile en("lines-en", "one\ntwo\n"), de("lines-de", "eins\nzw\xf6lf\n");
  const Stage stage = read_stage(
      "lines",
      {{"paths", Texts{en.path(), de.path()}}, {"parallel", true}, {"fields", Texts{"en", "de"}}});
  const auto stream = stage->open(0);
  CHECK(text_of(stream->next()->make()[1]) == "eins");
  const Lazy second = stream->next();
  check_error(
      Errc::bad_data, [&] { second->make(); }, "test-lines-de: line 2: byte 2 (0xf6)");
}

TEST_CASE("lines past the limit are refused before they fill the memory") {
  const TempFile file("lines", std::string("short\n").append(3'000'000, 'x'));
  const auto read = [&](const SourceArgs& more) {
    SourceArgs args = {{"paths", Texts{file.path()}}};
    args.insert(more.begin(), more.end());
    all_texts(read_stage("lines", args));
  };
  check_error(
      Errc::bad_data, [&] { read({}); }, "test-lines: line 2 is longer than 1048576 bytes");
  check_error(
      Errc::bad_data,
      [&] {
        read({{"line_bytes_max", int64_t{4}}});
      },
      "test-lines: line 1 is longer than 4 bytes");
  read({{"line_bytes_max", int64_t{3'000'000}}});
}

TEST_CASE("documents are whole files, without byte order mark and carriage returns") {
  const TempFile one("documents-1",
                     "\xef\xbb\xbf"
                     "a\r\nb\n\n"),
      two("documents-2", gzip("Ende")), bad("documents-3", "a\nb\x80");
  const Stage stage =
      read_stage("documents", {{"paths", Texts{binary_dir() + "/test-documents-[12]"}}});
  CHECK(stage->fields() == Fields{{"text", {DType::u8, {-1}}}});
  CHECK(all_texts(stage) == Texts{"a\nb\n\n", "Ende\n"});
  CHECK(stage->open(0)->next()->place() == one.path());
  const Stage wrong = read_stage("documents", {{"paths", Texts{bad.path()}}});
  const Lazy lazy = wrong->open(0)->next();
  check_error(
      Errc::bad_data, [&] { lazy->make(); }, "test-documents-3: line 2: byte 1 (0x80)");
}

TEST_CASE("texts come from any storage, and a folder stands for its files, in their bytes' order") {
  const FakeFiles files(
      {{"d/a", "one\n"}, {"d/B", "two\n"}, {"d/.c", "no\n"}, {"t.csv", "x\n7\n"}});
  const SourceArgs folder = {{"paths", Texts{"d"}}};
  CHECK(all_texts(read_stage("lines", folder, files)) == Texts{"two", "one"});
  const Stage documents = read_stage("documents", folder, files);
  CHECK(all_texts(documents) == Texts{"two\n", "one\n"});
  CHECK(documents->size() == 2);
  CHECK(documents->files() == std::vector<SourceFile>{{"B", 4}, {"a", 4}});
  const Stage table = read_stage("csv", {{"path", std::string("t.csv")}}, files);
  CHECK(all_records(table)[0][0].item<float>() == 7);
  CHECK(table->files() == std::vector<SourceFile>{{"t.csv", 4}});
}

TEST_CASE("arguments of lines and documents that do not fit are refused") {
  const TempFile file("lines", "a\n");
  const auto refused = [](std::string_view reader, const SourceArgs& args) {
    return refusal_of([&] { read_stage(reader, args); }).text;
  };
  const Texts path = {file.path()}, paths = {file.path(), file.path()};
  has(refused("lines", {{"paths", Texts{}}}), "lines wants at least one file in paths, got none");
  has(refused("lines", {{"paths", Texts{"no-such-file"}}}), "there is no file no-such-file");
  has(refused("lines", {{"paths", Texts{"no-*"}}}), "no file matches the pattern no-*");
  has(refused("lines", {{"paths", path}, {"line_bytes_max", int64_t{0}}}), "at least 1, got 0");
  has(refused("lines", {{"paths", path}, {"fields", paths}}), "for each of 1 field, got 2");
  has(refused("lines", {{"paths", paths}, {"parallel", true}}),
      "lines wants a name in fields for each of 2 files side by side, got 0");
  has(refused("lines", {{"paths", paths}, {"parallel", true}, {"fields", paths}}),
      "lines gives two fields of the name " + file.path());
  has(refused("lines", {{"paths", Texts{}}, {"parallel", true}}), "for each of 0 files");
  has(refused("lines", {{"path", path}}), "lines wants the argument paths");
  has(refused("documents", {{"paths", path}, {"fields", path}}), "has no argument fields");
  const TempFile other("lines-2", "a\n");
  has(refused("lines", {{"paths", Texts{file.path() + "*", file.path()}},
                        {"parallel", true},
                        {"fields", Texts{"a", "b"}}}),
      "test-lines* names 2 and ");
}

}  // namespace
}  // namespace troupe
