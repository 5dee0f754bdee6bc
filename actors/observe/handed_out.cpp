// Names the files of sessions, and writes each whole.
#include "actors/observe/handed_out.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <vector>

namespace troupe {
namespace {

const char* named(const char* variable) {
  const char* const path = std::getenv(variable);
  return path && *path ? path : nullptr;
}

std::string names(const std::vector<Output>& outputs) {
  std::string out;
  for (const Output& o : outputs) out += detail::concat(" ", o.name(), ":", o.index);
  return out;
}

}  // namespace

const char* graph_wanted() { return named("TROUPE_GRAPH_OUT"); }
const char* trace_wanted() { return named("TROUPE_TRACE_OUT"); }

std::string call_line(const std::vector<Output>& fetches, const std::vector<Output>& feeds) {
  return "# call: fetches" + names(fetches) + "; feeds" + names(feeds) + "\n";
}

std::string path_of_session(const std::string& path, uint64_t session) {
  static std::mutex mutex;
  static auto& asked = *new std::vector<uint64_t>;  // leaked: sessions may be closed after static
                                                    // objects
  std::lock_guard lock(mutex);
  const auto it = std::find(asked.begin(), asked.end(), session);
  const auto number = it - asked.begin() + 1;
  if (number > kHandingSessionsMax) return {};
  if (it == asked.end()) asked.push_back(session);
  return number == 1 ? path : detail::concat(path, ".", number);
}

std::string hand_out(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::error_code error;
  errno = 0;
  if (std::ofstream out(part, std::ios::binary); out << text && out.flush())
    std::filesystem::rename(part, path, error);
  else
    error.assign(errno ? errno : EIO, std::generic_category());
  return error ? error.message() : "";
}

}  // namespace troupe
