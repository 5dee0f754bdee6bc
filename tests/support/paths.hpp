// Folders that tests read from and write to. A value, and no macro of each command line, so that
// two clones compile alike.
#pragma once

#include <string>

namespace troupe {

const std::string& source_dir();  // the root of the checkout
const std::string& binary_dir();  // the build folder

}  // namespace troupe
