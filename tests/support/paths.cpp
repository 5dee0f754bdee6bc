// Defines the two folders of tests/support/paths.hpp from the paths that CMake passes.
#include "tests/support/paths.hpp"

namespace troupe {

const std::string& source_dir() {
  static const std::string dir = TROUPE_SOURCE_DIR;
  return dir;
}

const std::string& binary_dir() {
  static const std::string dir = TROUPE_BINARY_DIR;
  return dir;
}

}  // namespace troupe
