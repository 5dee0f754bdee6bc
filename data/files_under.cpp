// Paths are compared as the system resolves them.
#include "data/files_under.hpp"

#include <algorithm>
#include <system_error>

#include "troupe/error.hpp"

namespace troupe {
namespace {

std::filesystem::path resolved(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  // Parts that are not there cannot be links.
  std::filesystem::path out = std::filesystem::weakly_canonical(absolute, error);
  if (error) throw Error(Errc::io, "cannot look at ", path, ": ", error.message());
  return out.has_filename() ? out : out.parent_path();
}

// True if `path` is `folder` or below it.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

}  // namespace

FilesUnder::FilesUnder(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
      throw Error(Errc::bad_configuration, "the data folder ", folder,
                  " is not there, or is no folder");
    folders_.push_back(resolved(folder));
  }
}

void FilesUnder::check(const std::string& path) const {
  const std::filesystem::path whole = resolved(path);
  if (std::any_of(folders_.begin(), folders_.end(),
                  [&](const auto& folder) { return is_below(whole, folder); }))
    return;
  throw Error(Errc::invalid_argument, "this process reads no data from ", path,
              "; start it with a --data-dir above the file");
}

Files::Kind FilesUnder::kind(const std::string& path) const {
  const std::filesystem::path whole = resolved(path);
  if (std::any_of(folders_.begin(), folders_.end(),
                  [&](const auto& folder) { return is_below(folder, whole); }))
    return Kind::folder;
  check(path);
  return local_files().kind(path);
}

std::vector<Files::Entry> FilesUnder::entries(const std::string& folder) const {
  check(folder);
  return local_files().entries(folder);
}

std::shared_ptr<const RandomFile> FilesUnder::open(const std::string& path) const {
  check(path);
  return local_files().open(path);
}

std::shared_ptr<const Files> files_under(const std::vector<std::string>& folders) {
  if (!folders.empty()) return std::make_shared<FilesUnder>(folders);
  return {std::shared_ptr<const void>(), &local_files()};  // which live as long as the process
}

}  // namespace troupe
