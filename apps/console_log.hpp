// Lines that the programs write to standard error: those of the log, and their own, as text or,
// with --log-format=json, each as one JSON object. A line waits for a reader for 200 ms; then it is
// left out, as are the next ones until there is room again. The next line says how many.
//
// Owner: the program. Thread: any; one line at a time is written.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "troupe/session.hpp"

// Throws: Error(invalid_argument) for a name that is no level.
troupe::LogLevel log_level(const std::string& text);

// For a terminal: a byte that would steer it, as a damaged file may have, is shown as "\x1b".
std::string printable(std::string_view text);

// Bytes of `process` and `message` that are no UTF-8 become U+FFFD.
std::string json_line(const std::string& time, troupe::LogLevel level, std::string_view process,
                      std::string_view message);

std::string utc_now();  // "2026-01-31T12:00:00.123Z"

// A sink for the library: `process` and the time are on every line. Throws:
// Error(invalid_argument) for a format that is neither text nor json.
troupe::LogSink console_log(const std::string& format, std::string process);

// A sink for the program's own words to the person who started it: "PROGRAM: LINE", or as JSON the
// same lines as the log's. Throws: as console_log().
troupe::LogSink console_voice(const std::string& format, const std::string& program);

// The exit code of `work`. An exception is said and becomes one, and so does a standard output that
// cannot be written.
int exit_code_of(const troupe::LogSink& say, const std::function<int()>& work);
