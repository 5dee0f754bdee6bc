// Where the programs' log lines go: standard error, as text or as one JSON object a line.
#pragma once

#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>

#include "troupe/session.hpp"

inline troupe::LogLevel log_level(const std::string& text) {
  const char* const names[] = {"trace", "debug", "info", "warn", "error"};
  for (int i = 0; i < 5; ++i)
    if (text == names[i]) return static_cast<troupe::LogLevel>(i);
  throw troupe::Error(troupe::Errc::invalid_argument, "unknown log level \"", text,
                      "\"; one of trace, debug, info, warn, error");
}

// `process` is on every line. Throws: Error(invalid_argument) for a format that is neither text nor
// json.
inline troupe::LogSink console_log(const std::string& format, std::string process) {
  if (format != "text" && format != "json")
    throw troupe::Error(troupe::Errc::invalid_argument, "unknown log format \"", format,
                        "\"; text or json");
  return [json = format == "json", process = std::move(process)](troupe::LogLevel level,
                                                                 const std::string& line) {
    const char* const names[] = {"trace", "debug", "info", "warn", "error"};
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    const int millis = static_cast<int>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() %
        1000);
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    char when[40];
    std::strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    std::string text;
    if (json)
      for (char c : line) {
        if (c == '"' || c == '\\') text += '\\';
        if (static_cast<unsigned char>(c) >= 0x20)
          text += c;
        else
          text += ' ';
      }
    static std::mutex one_line_at_a_time;
    std::lock_guard lock(one_line_at_a_time);
    if (json)
      std::fprintf(
          stderr,
          "{\"time\":\"%s.%03dZ\",\"level\":\"%s\",\"process\":\"%s\",\"message\":\"%s\"}\n", when,
          millis, names[static_cast<int>(level)], process.c_str(), text.c_str());
    else
      std::fprintf(stderr, "%s.%03dZ %-5s %s %s\n", when, millis, names[static_cast<int>(level)],
                   process.c_str(), line.c_str());
  };
}
