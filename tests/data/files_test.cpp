// Files: the files that a path names, in local folders and in a fake, and the bytes of one in order
// and at any offset.
#include <filesystem>

#include "data/bytes.hpp"
#include "tests/support/fake_files.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {
namespace {

using Paths = std::vector<std::string>;

std::string read_all(ByteSource& file, size_t at_once) {
  std::string out, part(at_once, '\0');
  for (int64_t n; (n = file.read(part)) > 0;) out += part.substr(0, static_cast<size_t>(n));
  return out;
}

TEST_CASE("a path names a file, the files of a folder, or those that match a pattern") {
  const FakeFiles files(FileMap{{"a/2.rec", "x"},
                                {"a/10.rec", "y"},
                                {"a/.part", "z"},
                                {"a/b/3.rec", "u"},
                                {"a/c/3.rec", "v"},
                                {"a/c/4.txt", "w"}});
  CHECK(list_files(files, "a/2.rec") == Paths{"a/2.rec"});
  CHECK(list_files(files, "a") == Paths{"a/10.rec", "a/2.rec"});
  CHECK(list_files(files, "a/*") == Paths{"a/10.rec", "a/2.rec"});
  CHECK(list_files(files, "*/*.rec") == Paths{"a/10.rec", "a/2.rec"});
  CHECK(list_files(files, "a/*/3.rec") == Paths{"a/b/3.rec", "a/c/3.rec"});
  CHECK(list_files(files, "a/[c-z]/?.*") == Paths{"a/c/3.rec", "a/c/4.txt"});
  CHECK(list_files(files, "a/.*") == Paths{"a/.part"});
}

TEST_CASE("a path without files is refused") {
  const FakeFiles files(FileMap{{"a/b/3.rec", "u"}});
  check_error(
      Errc::io, [&] { list_files(files, "a/c"); }, "there is no file a/c; check the path");
  check_error(
      Errc::io, [&] { list_files(files, "a"); }, "the folder a has no files; name another");
  check_error(
      Errc::io, [&] { list_files(files, "a/*/*.txt"); }, "no file matches the pattern a/*/*.txt");
}

TEST_CASE("local folders and files are read, and refused with the system's words") {
  const std::string folder = binary_dir() + "/test-files";
  std::filesystem::create_directories(folder + "/sub");
  const TempFile one("files/1.bin", "abcdef"), two("files/2.bin", gzip("uvwxyz"));
  const Files& files = local_files();
  CHECK(list_files(files, folder) == Paths{folder + "/1.bin", folder + "/2.bin"});
  CHECK(list_files(files, folder + "/2*") == Paths{folder + "/2.bin"});
  CHECK(files.kind(folder) == Files::Kind::folder);
  CHECK(files.kind(folder + "/3") == Files::Kind::none);
  const auto file = files.open(folder + "/1.bin");
  std::string part(4, '\0');
  CHECK(file->size() == 6);
  CHECK(file->read(3, part) == 3);
  CHECK(part.substr(0, 3) == "def");
  CHECK(file->read(9, part) == 0);
  check_error(
      Errc::io, [&] { files.open(folder + "/3"); }, "cannot open " + folder + "/3: No such");
  check_error(
      Errc::io, [&] { files.open(folder); }, "it is not a regular file; name one");
  check_error(
      Errc::io, [&] { files.entries(folder + "/3"); }, "cannot list", "No such file");
  check_error(
      Errc::io, [&] { list_files(files, folder + "/sub"); }, "has no files");
}

TEST_CASE("bytes come in order whatever the buffer, plain or in members of a .gz") {
  const std::string bytes = "The quick brown fox jumps over the lazy dog.";
  const FakeFiles files(
      FileMap{{"plain", bytes},
              {"one.gz", gzip(bytes)},
              {"two.gz", gzip(bytes.substr(0, 9)) + gzip(bytes.substr(9)) + "rest"}});
  for (const char* path : {"plain", "one.gz", "two.gz"})
    for (const size_t buffer : {1, 3, 16, 1000})
      for (const size_t at_once : {1, 5, 100}) {
        CAPTURE(path);
        CAPTURE(buffer);
        ByteSource file(files.open(path), buffer);
        CHECK(file.is_gzip() == (std::string(path) != "plain"));
        CHECK(read_all(file, at_once) == bytes);
        CHECK(file.offset() == static_cast<int64_t>(bytes.size()));
        ByteSource again(files.open(path), buffer);
        std::string word(5, '\0');
        CHECK(again.skip(4) == 4);
        CHECK(again.read(word) == 5);
        CHECK(word == "quick");
        CHECK(again.skip(11) == 11);
        CHECK(again.read(word) == 5);
        CHECK(word == "jumps");
        CHECK(again.skip(1000) == static_cast<int64_t>(bytes.size()) - 25);
        CHECK(again.read(word) == 0);
      }
}

TEST_CASE("a .gz that is cut short or damaged is refused at every length") {
  const std::string whole = gzip("The quick brown fox jumps over the lazy dog.");
  for (size_t n = 2; n < whole.size(); ++n) {
    const FakeFiles files(FileMap{{"x.gz", whole.substr(0, n)}});
    ByteSource file(files.open("x.gz"), 7);
    check_error(
        Errc::bad_data, [&] { read_all(file, 10); }, "x.gz: the .gz is cut short after ");
  }
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  const FakeFiles files(FileMap{{"x.gz", damaged}});
  ByteSource file(files.open("x.gz"));
  check_error(
      Errc::bad_data, [&] { read_all(file, 10); },
      "x.gz: the .gz is damaged near unpacked byte 44 (incorrect data check)");
}

TEST_CASE("a file that fails while it is read says so") {
  const FakeFiles files(FileMap{{"a", "bytes"}}, "a");
  check_error(
      Errc::io, [&] { ByteSource(files.open("a")); }, "cannot read a: the fake refuses");
}

}  // namespace
}  // namespace troupe
