// The functions of text_file.hpp.
#include "data/text/text_file.hpp"

#include <glob.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "data/bytes.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&found, globfree);
  const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
  if (code == GLOB_NOMATCH)
    throw Error(Errc::io, "no file matches ", pattern, "; check the folder and the pattern");
  if (code != 0)
    throw Error(Errc::io, "cannot list ", pattern, ": ",
                code == GLOB_NOSPACE ? "out of memory" : std::strerror(errno));
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

}  // namespace

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

std::vector<std::string> listed_files(const std::vector<std::string>& paths,
                                      const std::string& of) {
  if (paths.empty())
    throw Error(Errc::invalid_argument, of, " wants at least one file in paths, got none");
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    const bool pattern = path.find_first_of("*?[") != std::string::npos;
    for (std::string& file : pattern ? matches(path) : std::vector<std::string>{path}) {
      ByteSource opens(file);
      files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace troupe
