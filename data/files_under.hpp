// FilesUnder: the local files below some folders, and no others. A node that was told its data
// folders reads the sources of other processes through it: they name paths of any file.
// Owner: the sources that share it. Thread: any.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/files.hpp"

namespace troupe {

class FilesUnder final : public Files {
 public:
  // Throws: Error(bad_configuration) for a folder that is not there.
  explicit FilesUnder(const std::vector<std::string>& folders);

  // A folder above one of the folders is seen, so that patterns of absolute paths find their way.
  Kind kind(const std::string& path) const override;
  std::vector<Entry> entries(const std::string& folder) const override;
  std::shared_ptr<const RandomFile> open(const std::string& path) const override;

 private:
  // Throws: Error(invalid_argument) unless the path, with its links followed, is below a folder.
  void check(const std::string& path) const;

  std::vector<std::filesystem::path> folders_;  // without links and dots
};

// The files that sources may read: below `folders`, or all local ones if none are given.
std::shared_ptr<const Files> files_under(const std::vector<std::string>& folders);

}  // namespace troupe
