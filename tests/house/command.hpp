// Output of a program.
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>

namespace troupe {

// Runs `command` by the shell. Throws if it fails.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run: " + command);
  std::string out;
  char some[65536];
  for (size_t n; (n = std::fread(some, 1, sizeof some, pipe)) > 0;) out.append(some, n);
  if (pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return out;
}

}  // namespace troupe
