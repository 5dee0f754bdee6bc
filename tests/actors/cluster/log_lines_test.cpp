// Log lines of a process with links wait for the program's sink, and no thread waits for them.
#include <doctest/doctest.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <spdlog/logger.h>

#include "actors/cluster/log_lines.hpp"

namespace troupe {

TEST_CASE("lines reach the sink in order, on another thread, before flush() returns") {
  std::vector<std::string> got;
  std::thread::id thread;
  const auto queue = std::make_shared<LogLines>([&](LogLevel level, const std::string& line) {
    got.push_back(detail::concat(static_cast<int>(level), " ", line));
    thread = std::this_thread::get_id();
  });
  spdlog::logger log("test", queue);
  log.info("one");
  log.critical("two");
  log.flush();
  CHECK(got == std::vector<std::string>{"2 one", "4 two"});
  CHECK(thread != std::this_thread::get_id());
}

TEST_CASE("lines that find no room are counted in a line") {
  std::vector<std::string> got;
  std::promise<void> blocked, go_on;
  const auto queue = std::make_shared<LogLines>([&](LogLevel, const std::string& line) {
    if (line == "first") {
      blocked.set_value();
      go_on.get_future().wait();
    }
    got.push_back(line);
  });
  spdlog::logger log("test", queue);
  log.info("first");
  blocked.get_future().wait();
  for (size_t i = 0; i < kLogLinesMax + 10; ++i) log.info("line {}", i);
  go_on.set_value();
  log.flush();
  log.info("last");
  log.flush();
  REQUIRE(got.size() == kLogLinesMax + 3);
  CHECK(got[kLogLinesMax] == detail::concat("line ", kLogLinesMax - 1));
  CHECK(got[kLogLinesMax + 1] == "log lines are lost, the program's sink takes too long: lines=10");
  CHECK(got.back() == "last");
}

TEST_CASE("lines at which the sink throws are counted, and the others arrive") {
  std::vector<std::string> got;
  int bad = 2;
  const auto queue = std::make_shared<LogLines>([&](LogLevel, const std::string& line) {
    if (bad-- > 0) throw std::runtime_error("the disk is full");
    got.push_back(line);
  });
  spdlog::logger log("test", queue);
  log.info("one");
  log.info("two");
  log.info("three");
  log.flush();
  CHECK(got == std::vector<std::string>{
                   "the program's log sink threw, lines are lost: lines=2 error=the disk is full",
                   "three"});
}

}  // namespace troupe
