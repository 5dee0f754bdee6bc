// Files of text that the library writes.
#pragma once

#include <string>

namespace troupe {

// Writes `text` to `path` by way of `path`.partial, so that there is never half a file. Throws:
// Error(io).
void write_text_file(const std::string& path, const std::string& text);

}  // namespace troupe
