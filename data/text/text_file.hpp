// Files of text that the library writes, and lists of files that arguments name.
#pragma once

#include <string>
#include <vector>

namespace troupe {

// Writes `text` to `path` by way of `path`.partial, so that there is never half a file. Throws:
// Error(io).
void write_text_file(const std::string& path, const std::string& text);

// The files that `paths` name, in their order; a path with `*`, `?` or `[` stands for the files
// that match it, sorted by name. `of`: the reader, for messages. Throws: Error(invalid_argument)
// for no path at all, Error(io) for a pattern that no file matches, and for a file that cannot be
// opened.
std::vector<std::string> listed_files(const std::vector<std::string>& paths, const std::string& of);

}  // namespace troupe
