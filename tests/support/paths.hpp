// Folders that tests read from and write to. They are values, not macros on every command line, so
// two clones have the same compile commands.
#pragma once

#include <string>

namespace troupe {

const std::string& source_dir();  // the root of the checkout
const std::string& binary_dir();  // the build folder

}  // namespace troupe
