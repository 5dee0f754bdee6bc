// Log lines as JSON: one object a line, for any text.
#include "apps/console_log.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <future>

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

// Standard error becomes a pipe that is full, until this object goes.
class FullPipe {
 public:
  FullPipe() : before_(dup(2)) {
    REQUIRE(pipe(ends_) == 0);
    dup2(ends_[1], 2);
    const int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK);
    const std::string page(4096, '.');
    while (write(own, page.data(), page.size()) > 0) continue;
    close(own);
  }
  ~FullPipe() {
    dup2(before_, 2);
    for (int fd : {before_, ends_[0], ends_[1]}) close(fd);
  }
  std::string read_all() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string out(1 << 20, ' ');
    size_t at = 0;
    for (ssize_t n; (n = read(ends_[0], out.data() + at, out.size() - at)) > 0;)
      at += static_cast<size_t>(n);
    out.resize(at);
    return out.substr(std::min(out.size(), out.find_first_not_of('.')));
  }

 private:
  const int before_;
  int ends_[2];
};

}  // namespace

TEST_CASE("lines that nobody reads are left out and counted, and keep nobody waiting") {
  const LogSink say = console_voice("text", "prog");
  FullPipe pipe;
  auto said = std::async(std::launch::async, [&] {
    for (int i = 0; i < 1000; ++i) say(LogLevel::warn, "line " + std::to_string(i));
  });
  const bool blocked = said.wait_for(std::chrono::seconds(10)) != std::future_status::ready;
  CHECK_FALSE(blocked);
  std::string text = pipe.read_all();
  said.wait();
  CHECK(text.empty());
  say(LogLevel::warn, "read again");
  say(LogLevel::warn, std::string(20'000, 'x') + " is whole");
  CHECK(pipe.read_all() ==
        "prog: standard error took no more: 1000 lines are left out here\n"
        "prog: read again\nprog: " +
            std::string(20'000, 'x') + " is whole\n");
}

TEST_CASE("a message of the log is one line, whatever it holds") {
  FullPipe pipe;
  pipe.read_all();
  console_log("text", "ps")(LogLevel::warn, "peer=a\n2026-01-31 error all is lost");
  const std::string text = pipe.read_all();
  CHECK(text.find(" warn  ps peer=a\\n2026-01-31 error all is lost\n") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("a line that is cut has an end before the next one, and the last one is waited for") {
  FullPipe pipe;
  pipe.read_all();
  const LogSink say = console_voice("text", "prog");
  say(LogLevel::warn, std::string(1 << 20, 'x'));
  CHECK(pipe.read_all().find_first_not_of('x', 6) == std::string::npos);
  CHECK(exit_code_of(say, []() -> int { throw Error(Errc::io, "full"); }) == 74);
  CHECK(pipe.read_all() ==
        "\nprog: standard error took no more: 1 line is left out here\nprog: full\n");
}

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
