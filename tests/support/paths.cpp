// The two folders of tests/support/paths.hpp, as CMake names them.
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
