// What the programs write to standard error: log lines, and what they themselves have to say, as
// text or, with --log-format=json, each as one JSON object a line.
#pragma once

#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>

#include "troupe/session.hpp"

inline const char* level_name(troupe::LogLevel level) {
  const char* const names[] = {"trace", "debug", "info", "warn", "error"};
  return names[static_cast<int>(level)];
}

inline troupe::LogLevel log_level(const std::string& text) {
  using troupe::LogLevel;
  for (LogLevel level :
       {LogLevel::trace, LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error})
    if (text == level_name(level)) return level;
  throw troupe::Error(troupe::Errc::invalid_argument, "unknown log level \"", text,
                      "\"; one of trace, debug, info, warn, error");
}

// The text of a JSON string, without quotes: valid UTF-8 as it is, any other byte as U+FFFD.
inline std::string json_text(std::string_view text) {
  // Bytes of the character that begins here; 0: none does (RFC 3629).
  const auto character = [](std::string_view t) -> size_t {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(t[i]); };
    const size_t n = byte(0) < 0x80   ? 1
                     : byte(0) < 0xc2 ? 0
                     : byte(0) < 0xe0 ? 2
                     : byte(0) < 0xf0 ? 3
                     : byte(0) < 0xf5 ? 4
                                      : 0;
    if (n > t.size()) return 0;
    for (size_t i = 1; i < n; ++i)
      if ((byte(i) & 0xc0) != 0x80) return 0;
    // Longer than it needs to be, half of a pair, or past the last one.
    if ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f) ||
        (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f))
      return 0;
    return n;
  };
  std::string out;
  while (!text.empty()) {
    const size_t n = character(text);
    char escaped[8] = "\\ufffd";
    if (n == 1 && static_cast<unsigned char>(text[0]) < 0x20)
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(text[0]));
    else if (n == 1 && (text[0] == '"' || text[0] == '\\'))
      std::snprintf(escaped, sizeof escaped, "\\%c", text[0]);
    else if (n > 0)
      escaped[0] = 0;
    out += escaped[0] ? std::string_view(escaped) : text.substr(0, n);
    text.remove_prefix(n ? n : 1);
  }
  return out;
}

// For a terminal: what would steer it, as bytes of a damaged file may, is shown as "\x1b".
inline std::string printable(std::string_view text) {
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

inline std::string json_line(const std::string& time, troupe::LogLevel level,
                             std::string_view process, std::string_view message) {
  return troupe::detail::concat("{\"time\":\"", time, "\",\"level\":\"", level_name(level),
                                "\",\"process\":\"", json_text(process), "\",\"message\":\"",
                                json_text(message), "\"}");
}

inline std::string utc_now() {  // "2026-01-31T12:00:00.123Z"
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

// Throws: Error(invalid_argument) for a format that is neither text nor json.
inline bool is_json(const std::string& format) {
  if (format != "text" && format != "json")
    throw troupe::Error(troupe::Errc::invalid_argument, "unknown log format \"", format,
                        "\"; text or json");
  return format == "json";
}

// For the library: `process` and the time are on every line. Throws: as is_json().
inline troupe::LogSink console_log(const std::string& format, std::string process) {
  return [json = is_json(format), process = std::move(process)](troupe::LogLevel level,
                                                                const std::string& line) {
    const std::string now = utc_now();
    static std::mutex one_line_at_a_time;
    std::lock_guard lock(one_line_at_a_time);
    if (json)
      std::fprintf(stderr, "%s\n", json_line(now, level, process, line).c_str());
    else
      std::fprintf(stderr, "%s %-5s %s %s\n", now.c_str(), level_name(level), process.c_str(),
                   printable(line).c_str());
  };
}

// For what a program itself has to say to whoever started it: "PROGRAM: LINE", or as JSON the same
// lines as the log's. Throws: as is_json().
inline troupe::LogSink console_voice(const std::string& format, const std::string& program) {
  if (is_json(format)) return console_log(format, program);
  return [program](troupe::LogLevel, const std::string& line) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), printable(line).c_str());
  };
}

// Throws: Error(io) if what was printed has not arrived.
inline void check_printed() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout))
    throw troupe::Error(troupe::Errc::io,
                        "standard output could not be written to; is the disk full?");
}

// The exit code of `work`. What it throws is said, and becomes one, too; and so does the end of a
// program that has printed into nothing.
inline int exit_code_of(const troupe::LogSink& say, const std::function<int()>& work) {
  constexpr int kExitSoftware = 70;
  try {
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
