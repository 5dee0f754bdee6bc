// Lines of text.
#include <doctest/doctest.h>

#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/data.hpp"

namespace troupe {

TEST_CASE("lines of text are read plain and gzipped, with either end, and over blocks") {
  const std::string text = "one\r\ntwo\n\nlast";
  const TempFile plain("text.txt", text), packed("text.txt.gz", gzip(text)), end("end.txt", "a\n");
  const std::vector<std::string> lines = {"one", "two", "", "last"};
  CHECK(read_lines(plain.path()) == lines);
  CHECK(read_lines(packed.path()) == lines);
  CHECK(read_lines(end.path()) == std::vector<std::string>{"a"});
  const std::string wide(100'000, 'x');
  const TempFile blocks("blocks.txt", wide + "\n" + wide + "y\n");
  CHECK(read_lines(blocks.path()) == std::vector<std::string>{wide, wide + "y"});
}

TEST_CASE("a file of text that is cut, empty or too long is refused with its name") {
  std::string longer;
  for (int i = 0; i < 5000; ++i) longer += std::to_string(i * 7919) + "\n";
  const TempFile cut("cut.txt.gz", gzip(longer).substr(0, 5000)), empty("empty.txt", "");
  const Refusal of_cut = refusal_of([&] { read_lines(cut.path()); });
  CHECK(of_cut.code == Errc::bad_data);
  has(of_cut.text, "cut.txt.gz");
  has(refusal_of([&] { read_lines(empty.path()); }).text, "empty.txt is empty");
  const TempFile whole("whole.txt", longer);
  has(refusal_of([&] { read_lines(whole.path(), 100); }).text, "more than 100 unpacked bytes");
  CHECK(code_of([&] { read_lines(empty.path() + ".none"); }) == Errc::io);
}

}  // namespace troupe
