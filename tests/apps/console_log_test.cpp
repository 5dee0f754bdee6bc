// Log lines as JSON: one object a line, for any text.
#include "apps/console_log.hpp"

#include <doctest/doctest.h>

#include "data/files/json.hpp"

namespace troupe {
namespace {

// The text that a reader of the log gets for `message`.
std::string read_back(const std::string& message) {
  const std::string line = json_line("2026-01-31T12:00:00.123Z", LogLevel::warn, "a\"b", message);
  CAPTURE(line);
  CHECK(line.find('\n') == line.npos);
  const Json json = parse_json(line, "log");
  CHECK(json.keys == std::vector<std::string>{"time", "level", "process", "message"});
  CHECK(json.find("time")->text == "2026-01-31T12:00:00.123Z");
  CHECK(json.find("level")->text == "warn");
  CHECK(json.find("process")->text == "a\"b");
  return json.find("message")->text;
}

}  // namespace

TEST_CASE("a log line as JSON reads back as it was said, with every character there is") {
  std::string ascii;
  for (char c = 0; c < 0x7f; ++c) ascii += c;
  for (const std::string& text :
       {std::string(), ascii, std::string("\"\\\"\\\\"), std::string("two\nlines\r\n\ttabbed"),
        std::string("\x7f ä € 𝄞 \u0080 \ufffd \U0010ffff")})
    CHECK(read_back(text) == text);
}

TEST_CASE("bytes that are no UTF-8 become replacement characters, and the rest stays") {
  const std::string bad = "\ufffd";
  CHECK(read_back("a\xff"
                  "b") == "a" + bad + "b");
  CHECK(read_back("cut \xe2\x82") == "cut " + bad);     // one for a character that is cut off
  CHECK(read_back("\xc0\xaf") == bad + bad);            // "/", longer than it needs to be
  CHECK(read_back("\xed\xa0\x80") == bad + bad + bad);  // half of a pair
  CHECK(read_back("\xf4\x90\x80\x80\xc3\xa4") == bad + bad + bad + bad + "ä");
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second)
      (void)read_back({static_cast<char>(first), static_cast<char>(second), 'x'});
}

TEST_CASE("what would steer a terminal is shown, and the rest stays as it is") {
  CHECK(printable("two\nlines\t\"ä\" \\x1b") == "two\nlines\t\"ä\" \\x1b");
  CHECK(printable("\x1b[31m\r\x7f") == "\\x1b[31m\\x0d\\x7f");
  CHECK(printable(std::string("\0x", 2)) == "\\x00x");
}

TEST_CASE("the time of a log line is UTC to the millisecond; formats and levels are few") {
  CHECK(utc_now().size() == std::string("2026-01-31T12:00:00.123Z").size());
  CHECK(log_level("debug") == LogLevel::debug);
  CHECK_THROWS_AS(log_level("loud"), Error);
  CHECK_THROWS_AS(console_log("xml", "x"), Error);
  CHECK_THROWS_AS(console_voice("xml", "x"), Error);
}

}  // namespace troupe
