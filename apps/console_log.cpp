// The lines as text and, by nlohmann-json, as JSON; and exceptions as exit codes.
#include "apps/console_log.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>

namespace {

const char* level_name(troupe::LogLevel level) {
  const char* const names[] = {"trace", "debug", "info", "warn", "error"};
  return names[static_cast<int>(level)];
}

// Throws: Error(invalid_argument) for a format that is neither text nor json.
bool is_json(const std::string& format) {
  if (format != "text" && format != "json")
    throw troupe::Error(troupe::Errc::invalid_argument, "unknown log format \"", format,
                        "\"; text or json");
  return format == "json";
}

using Format = std::function<std::string(troupe::LogLevel, const std::string&)>;

// Standard error, which its reader may leave unread: a pager, a terminal after Ctrl-S. A line that
// finds no room is left out and counted, as whoever says it has processes or links to look after.
class ErrorLines {
 public:
  void put(const Format& format, troupe::LogLevel level, const std::string& line) {
    std::lock_guard lock(mutex_);
    if (tell_left_out() && write(format(level, line))) return;
    ++left_out_;
    format_ = format;
  }
  // Lines may wait longer now, as no work is left that they could delay.
  void end_of_work() {
    std::lock_guard lock(mutex_);
    patience_ = kLastPatience;
    tell_left_out();
  }

 private:
  using Time = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPatience{200}, kLastPatience{2'000};

  // False: there is still no room.
  bool tell_left_out() {
    if (left_out_ > 0 &&
        write(format_(
            troupe::LogLevel::warn,
            troupe::detail::concat("standard error took no more: ", left_out_,
                                   left_out_ == 1 ? " line is" : " lines are", " left out here"))))
      left_out_ = 0;
    return left_out_ == 0;
  }

  // False: the line was left out, or cut.
  bool write(const std::string& line) {
    const std::string text = (cut_ ? "\n" : "") + line + "\n";
    const bool known_as_full = left_out_ > 0 && patience_ == kPatience;
    const auto until = Time::now() + (known_as_full ? std::chrono::milliseconds(0) : patience_);
    size_t at = 0;
    while (at < text.size()) {
      const ssize_t n = write_now(std::string_view(text).substr(at, PIPE_BUF), until);
      if (n < 0) break;
      at += static_cast<size_t>(n);
      cut_ = at < text.size();
    }
    return at == text.size();
  }

  // -1: no room by `until`, or an error.
  static ssize_t write_now(std::string_view text, Time::time_point until) {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Time::now()).count();
      pollfd room{STDERR_FILENO, POLLOUT, 0};
      const int ready = poll(&room, 1, static_cast<int>(std::max<int64_t>(left, 0)));
      if (ready > 0) {
        if (const ssize_t n = write_if_room(text); n >= 0 || errno != EAGAIN) return n;
        usleep(1'000);
      }
      if (Time::now() >= until && (ready >= 0 || errno != EINTR)) return -1;
    }
  }

  // Another process may have taken the room that poll() saw. O_NONBLOCK is set for a file of our
  // own, since the one that we have is shared with the shell.
  static ssize_t write_if_room(std::string_view text) {
    struct stat kind {};
    int fd = -1;
    if (fstat(STDERR_FILENO, &kind) == 0 && (S_ISFIFO(kind.st_mode) || S_ISCHR(kind.st_mode)))
      fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const ssize_t n = ::write(fd >= 0 ? fd : STDERR_FILENO, text.data(), text.size());
    const int why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    return n;
  }

  std::mutex mutex_;
  std::chrono::milliseconds patience_ = kPatience;
  int64_t left_out_ = 0;  // since the last line that was written
  Format format_;         // of the last one that was left out
  bool cut_ = false;      // the last line has no end
};

ErrorLines& error_lines() {
  static ErrorLines lines;
  return lines;
}

troupe::LogSink sink(Format format) {
  return [format = std::move(format)](troupe::LogLevel level, const std::string& line) {
    error_lines().put(format, level, line);
  };
}

// Throws: Error(io) if printed text has not arrived.
void check_printed() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout))
    throw troupe::Error(troupe::Errc::io,
                        "standard output could not be written to; is the disk full?");
}

}  // namespace

troupe::LogLevel log_level(const std::string& text) {
  using troupe::LogLevel;
  for (LogLevel level :
       {LogLevel::trace, LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error})
    if (text == level_name(level)) return level;
  throw troupe::Error(troupe::Errc::invalid_argument, "unknown log level \"", text,
                      "\"; one of trace, debug, info, warn, error");
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    char escaped[8] = "";
    if (const auto byte = static_cast<unsigned char>(c);
        (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f)
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    out += escaped[0] ? std::string_view(escaped) : std::string_view(&c, 1);
  }
  return out;
}

std::string json_line(const std::string& time, troupe::LogLevel level, std::string_view process,
                      std::string_view message) {
  using Json = nlohmann::ordered_json;
  const Json line = {
      {"time", time}, {"level", level_name(level)}, {"process", process}, {"message", message}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char whole[32], out[40];
  std::strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(out, sizeof out, "%s.%03dZ", whole, static_cast<int>(millis));
  return out;
}

troupe::LogSink console_log(const std::string& format, std::string process) {
  return sink([json = is_json(format), process = std::move(process)](troupe::LogLevel level,
                                                                     const std::string& line) {
    const std::string now = utc_now();
    if (json) return json_line(now, level, process, line);
    const std::string name = level_name(level);
    std::string text = printable(line);  // one line, or a message could forge the next one
    for (size_t at = 0; (at = text.find('\n', at)) != text.npos;) text.replace(at, 1, "\\n");
    return troupe::detail::concat(now, " ", name, std::string(6 - name.size(), ' '), process, " ",
                                  text);
  });
}

troupe::LogSink console_voice(const std::string& format, const std::string& program) {
  if (is_json(format)) return console_log(format, program);
  return sink([program](troupe::LogLevel, const std::string& line) {
    return program + ": " + printable(line);
  });
}

int exit_code_of(const troupe::LogSink& say, const std::function<int()>& work) {
  constexpr int kExitSoftware = 70;
  struct EndOfWork {
    ~EndOfWork() { error_lines().end_of_work(); }
  };
  try {
    const EndOfWork told_at_the_end;
    const int code = work();
    if (code == 0) check_printed();
    return code;
  } catch (const troupe::Error& e) {
    say(troupe::LogLevel::error, e.what());
    return troupe::exit_code(e.code());
  } catch (const std::filesystem::filesystem_error& e) {
    say(troupe::LogLevel::error,
        troupe::detail::concat("cannot use ", e.path1().string(), ": ", e.code().message(),
                               "; check the path and its permissions, or name another"));
    return troupe::exit_code(troupe::Errc::io);
  } catch (const std::system_error& e) {
    say(troupe::LogLevel::error,
        troupe::detail::concat("the system refuses what is wanted of it: ", e.what(),
                               "; are its limits too low? See ulimit -a"));
    return troupe::exit_code(troupe::Errc::io);
  } catch (const std::exception& e) {
    say(troupe::LogLevel::error, e.what());
    return kExitSoftware;
  }
}
