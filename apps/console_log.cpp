// The lines as text and, by nlohmann-json, as JSON; and exceptions as exit codes.
#include "apps/console_log.hpp"

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

troupe::LogSink console_voice(const std::string& format, const std::string& program) {
  if (is_json(format)) return console_log(format, program);
  return [program](troupe::LogLevel, const std::string& line) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), printable(line).c_str());
  };
}

int exit_code_of(const troupe::LogSink& say, const std::function<int()>& work) {
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
