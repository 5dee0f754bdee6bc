// LogLines: hands the log lines of a process with links to the program's sink, on a thread of its
// own and in order. The sink may block, as a pipe that nobody reads does, and the network thread,
// which logs, too, never waits for it. Lines that find no room are lost and counted in a line of
// their own, and so are lines at which the sink throws.
//
// Owner: the logger of a Process, which others may hold for longer. Thread: any.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <spdlog/sinks/sink.h>

#include "troupe/session.hpp"

namespace troupe {

inline constexpr size_t kLogLinesMax = 4096;  // that wait for the sink

class LogLines final : public spdlog::sinks::sink {
 public:
  explicit LogLines(LogSink sink) : sink_(std::move(sink)), thread_([this] { serve(); }) {}
  ~LogLines() override;  // the sink gets all lines first
  void log(const spdlog::details::log_msg& message) override;
  void flush() override;  // returns when the sink has got all lines so far
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  struct Line {
    LogLevel level;
    std::string text;
  };
  void serve();
  void deliver(const Line& line);
  void count_lost();  // requires mutex_

  const LogSink sink_;
  int64_t thrown_ = 0;  // lines at which the sink threw; the thread's own
  std::string why_;     // of the last of them

  std::mutex mutex_;  // guards the next four
  std::deque<Line> lines_;
  int64_t lost_ = 0;  // since the newest line in the queue
  bool busy_ = false, stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;  // last: it uses the others
};

// The level and the text of a line, as a LogSink takes them.
inline LogLevel level_of(const spdlog::details::log_msg& message) {
  return message.level > static_cast<int>(LogLevel::error) ? LogLevel::error
                                                           : static_cast<LogLevel>(message.level);
}
inline std::string text_of(const spdlog::details::log_msg& message) {
  return {message.payload.data(), message.payload.size()};
}

}  // namespace troupe
