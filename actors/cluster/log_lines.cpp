// Queues, counts and delivers log lines.
#include "actors/cluster/log_lines.hpp"

#include <exception>
#include <utility>

namespace troupe {

LogLines::~LogLines() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LogLines::log(const spdlog::details::log_msg& message) {
  Line line{level_of(message), text_of(message)};
  {
    std::lock_guard lock(mutex_);
    if (lines_.size() >= kLogLinesMax) {
      ++lost_;
      return;
    }
    count_lost();
    lines_.push_back(std::move(line));
  }
  changed_.notify_all();
}

void LogLines::count_lost() {
  if (const int64_t lines = std::exchange(lost_, 0))
    lines_.push_back({LogLevel::warn, detail::concat("log lines are lost, the program's sink takes "
                                                     "too long: lines=",
                                                     lines)});
}

void LogLines::flush() {
  if (std::this_thread::get_id() == thread_.get_id()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return lines_.empty() && lost_ == 0 && !busy_; });
}

void LogLines::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const Line line = std::move(lines_.front());
    lines_.pop_front();
    if (lines_.empty()) count_lost();
    busy_ = true;
    lock.unlock();
    deliver(line);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

// Lines that were lost by an exception are told with the next line that the sink takes.
void LogLines::deliver(const Line& line) {
  try {
    if (thrown_ > 0) {
      sink_(LogLevel::error, detail::concat("the program's log sink threw, lines are lost: lines=",
                                            thrown_, " error=", why_));
      thrown_ = 0;
    }
    sink_(line.level, line.text);
  } catch (const std::exception& e) {
    ++thrown_;
    why_ = e.what();
  } catch (...) {
    ++thrown_;
    why_ = "something that is no std::exception";
  }
}

}  // namespace troupe
