// Files of text that the library writes.
#pragma once

#include <string>

namespace troupe {

// Writes `text` to `path`: after a crash there is the old file or the whole new one, and of several
// writers the last one stays. Throws: Error(io).
void write_text_file(const std::string& path, const std::string& text);

}  // namespace troupe
