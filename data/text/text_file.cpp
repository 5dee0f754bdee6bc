// The functions of text_file.hpp.
#include "data/text/text_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "troupe/error.hpp"

namespace troupe {
void write_text_file(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  const auto refuse = [&] {
    const int error = errno;
    std::remove(partial.c_str());
    throw Error(Errc::io, "cannot write ", path, ": ", std::strerror(error),
                "; check the folder, its permissions and the free space");
  };
  std::FILE* file = std::fopen(partial.c_str(), "wbe");
  if (!file) refuse();
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((std::fclose(file) != 0) | !whole) refuse();
  if (std::rename(partial.c_str(), path.c_str()) != 0) refuse();
}

}  // namespace troupe
