// Which plugins a program is told to load: --plugin, or TROUPE_PLUGINS, paths with colons between
// them, as `actor-node up` sets it for its program.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

inline const char* const kPluginsVariable = "TROUPE_PLUGINS";

// The paths of --plugin as absolute ones.
inline std::vector<std::string> absolute_paths(const std::vector<std::string>& named) {
  std::vector<std::string> out;
  for (const std::string& path : named)
    out.push_back(std::filesystem::absolute(path).lexically_normal().string());
  return out;
}

inline std::string with_colons(const std::vector<std::string>& paths) {
  std::string out;
  for (const std::string& path : paths) out += (out.empty() ? "" : ":") + path;
  return out;
}

// The paths of --plugin as absolute ones, or those of the environment where there is no --plugin.
inline std::vector<std::string> plugins_for(const std::vector<std::string>& named) {
  std::vector<std::string> out = absolute_paths(named);
  const char* text = std::getenv(kPluginsVariable);
  if (!out.empty() || !text) return out;
  for (std::string rest = text; !rest.empty();) {
    const size_t end = rest.find(':');
    if (end != 0) out.push_back(rest.substr(0, end));
    rest.erase(0, end == rest.npos ? end : end + 1);
  }
  return out;
}
