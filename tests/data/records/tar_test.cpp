// TarReader: the names and contents of each form of archive, and archives that are damaged.
#include "data/records/tar.hpp"
#include "tests/support/fake_files.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/tar_file.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {
namespace {

using Listing = std::vector<std::pair<std::string, std::string>>;  // names and contents

Listing list(const std::string& bytes, size_t buffer = ByteSource::kBuffer) {
  const FakeFiles files(FileMap{{"a.tar", bytes}});
  TarReader tar(files.open("a.tar"), buffer);
  Listing out;
  for (TarEntry entry; tar.next(entry);) {
    std::string content(static_cast<size_t>(entry.size), '\0');
    tar.read(content);
    if (!tar.is_gzip())
      CHECK(bytes.substr(static_cast<size_t>(entry.offset), content.size()) == content);
    out.emplace_back(entry.name, content);
  }
  return out;
}

std::string pax(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

TEST_CASE("entries come in order, with names of every form") {
  const std::string long_name = "train/" + std::string(150, 'n') + "/1.jpg";
  const std::string bytes =
      tar_entry("train/", "", {.type = '5'}) + tar_entry("./train/cat/1.jpg", "one") +
      tar_entry("cat/2.jpg", std::string(700, 'x'), {.prefix = "train"}) +
      tar_entry("././@LongLink", long_name + '\0', {.type = 'L', .magic = "ustar  "}) +
      tar_entry(long_name.substr(0, 100), "two", {.magic = "ustar  "}) +
      tar_entry("PaxHeaders/3", pax("mtime", "1.5") + pax("path", "train/\xc3\xa9/3.jpg"),
                {.type = 'x'}) +
      tar_entry("short", "three") +
      tar_entry("pax_global_header", pax("comment", "c"), {.type = 'g'}) +
      tar_entry("old/", "", {.type = '\0'}) + tar_entry("empty", "", {.type = '\0'}) +
      tar_entry("wide", "four", {.size = std::string("\x80\0\0\0\0\0\0\0\0\0\0\4", 12)}) + kTarEnd;
  const Listing wanted = {{"train/cat/1.jpg", "one"},
                          {"train/cat/2.jpg", std::string(700, 'x')},
                          {long_name, "two"},
                          {"train/\xc3\xa9/3.jpg", "three"},
                          {"empty", ""},
                          {"wide", "four"}};
  for (const size_t buffer : {2, 512, 100'000}) {
    CHECK(list(bytes, buffer) == wanted);
    CHECK(list(gzip(bytes), buffer) == wanted);
  }
}

TEST_CASE("a size in a pax header counts") {
  const std::string bytes = tar_entry("PaxHeaders/1", pax("size", "4"), {.type = 'x'}) +
                            tar_entry("1", "four", {.size = "00000000000"}) +
                            tar_entry("2", "two") + kTarEnd;
  CHECK(list(bytes) == Listing{{"1", "four"}, {"2", "two"}});
}

TEST_CASE("an archive that is cut short anywhere is refused") {
  const std::string bytes = tar_entry("cat/1", "one") + tar_entry("cat/2", "two") + kTarEnd;
  for (size_t n = 0; n < bytes.size() - 1023; n += 128) {
    CAPTURE(n);
    check_error(
        Errc::bad_data, [&] { list(bytes.substr(0, n)); }, "a.tar: at byte ",
        "the archive is cut short");
  }
  check_error(
      Errc::bad_data, [&] { list(bytes.substr(0, 1024)); },
      "a.tar: at byte 1024: the archive is cut short: two blocks of zeros end one");
}

TEST_CASE("an archive that is damaged is refused with place and entry") {
  std::string bytes = tar_entry("cat/1", "one") + tar_entry("cat/2", "two") + kTarEnd;
  bytes[1024 + 2] = 'T';
  check_error(
      Errc::bad_data, [&] { list(bytes); },
      "a.tar: at byte 1024: a header has a wrong checksum; the file is damaged");
  check_error(
      Errc::bad_data, [&] { list(tar_entry("a", "", {.size = "00000000xyz"}) + kTarEnd); },
      "a.tar: at byte 0: a has a size that the archive cannot hold");
  check_error(
      Errc::bad_data, [&] { list(tar_entry("a", "", {.size = "77777777777"}) + kTarEnd); },
      "a.tar: at byte 0: a has a size that the archive cannot hold");
  check_error(
      Errc::bad_data, [&] { list(tar_entry("a", "", {.size = "-0000000001"}) + kTarEnd); },
      "a has a size");
  check_error(
      Errc::bad_data,
      [&] { list(tar_entry("a", "", {.size = std::string(12, '\xff')}) + kTarEnd); },
      "a has a size");
  check_error(
      Errc::bad_data, [&] { list(tar_entry("b", "", {.type = '2'}) + kTarEnd); },
      "a.tar: at byte 0: b is no regular file but of type 2");
  for (const char* records : {"x", "99 path=a\n", "5 a=\n5 b=c", "9 pathxa\n", "12 size=abc\n"}) {
    CAPTURE(records);
    check_error(
        Errc::bad_data,
        [&] { list(tar_entry("p", records, {.type = 'x'}) + tar_entry("a", "") + kTarEnd); },
        "at byte 0: a pax header has no records");
  }
}

}  // namespace
}  // namespace troupe
