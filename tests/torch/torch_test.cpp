// Ops, gradients, optimizers and schedules against PyTorch and Keras, if they are installed
// (bench/peers/install.sh installs them).
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include <doctest/doctest.h>

#include "tests/torch/cases.hpp"
#include "tests/support/paths.hpp"

namespace troupe {
namespace {

struct Ran {
  int code = -1;
  std::string text;
};

Ran ran(const std::string& command) {
  Ran out;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return out;
  char part[4096];
  while (size_t n = fread(part, 1, sizeof part, pipe)) out.text.append(part, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) out.code = WEXITSTATUS(status);
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

// The first Python that has the module: that of bench/peers, or the system's. "" if there is none.
std::string python_with(const std::string& module) {
  const char* given = std::getenv("TROUPE_PEERS");
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string peers = given   ? given
                            : cache ? std::string(cache) + "/troupe/peers"
                                    : std::string(home ? home : "") + "/.cache/troupe/peers";
  for (const std::string& python : {peers + "/bin/python", std::string("python3")})
    if (ran(quoted(python) +
            " -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec(\"" + module +
            "\"))' 2>/dev/null")
            .code == 0)
      return python;
  return "";
}

void compare(const std::string& module, const std::string& library,
             std::vector<std::string> (*cases)()) {
  const std::string python = python_with(module);
  if (python.empty()) {
    std::cout << "skipped: " << library << " is not installed; bench/peers/install.sh does it\n";
    return;
  }
  const std::string path =
      (std::filesystem::temp_directory_path() / ("troupe-" + module + "-cases.json")).string();
  {
    std::ofstream file(path);
    file << "[";
    const char* comma = "";
    for (const std::string& one : cases()) file << std::exchange(comma, ",\n") << one;
    file << "]\n";
    REQUIRE(file.flush());
  }
  const Ran result = ran(quoted(python) + " " + quoted(source_dir() + "/tests/torch/compare.py") +
                         (module == "torch" ? " torch " : " keras ") + quoted(path) + " 2>&1");
  std::filesystem::remove(path);
  CHECK_MESSAGE(result.code == 0, result.text);
  CHECK(result.text.find(" compared, 0 differ") != std::string::npos);
}

TEST_CASE("ops have the values and gradients of PyTorch's") {
  compare("torch", "PyTorch", op_cases);
}

TEST_CASE("optimizers and schedules take the steps of PyTorch's") {
  compare("torch", "PyTorch", torch_trajectories);
}

TEST_CASE("ftrl, lamb and rmsprop take the steps of Keras's") {
  compare("tensorflow", "TensorFlow", keras_trajectories);
}

}  // namespace
}  // namespace troupe
