// FakeFiles: files that are in memory, in the place of local ones. For tests of readers.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "data/files.hpp"
#include "troupe/error.hpp"

namespace troupe {

using FileMap = std::map<std::string, std::string>;  // bytes by path

class FakeFiles final : public Files {
 public:
  // `broken`: a file that can be opened, but not read.
  explicit FakeFiles(FileMap files, std::string broken = {})
      : files_(std::move(files)), broken_(std::move(broken)) {}

  Kind kind(const std::string& path) const override {
    if (files_.count(path)) return Kind::file;
    const std::string folder = path == "." ? "" : path + "/";
    const auto after = files_.lower_bound(folder);
    return after != files_.end() && after->first.starts_with(folder) ? Kind::folder : Kind::none;
  }
  std::vector<Entry> entries(const std::string& folder) const override {
    const std::string head = folder == "." ? "" : folder + "/";
    std::map<std::string, bool> found;
    for (const auto& [path, bytes] : files_) {
      if (!path.starts_with(head)) continue;
      const std::string rest = path.substr(head.size());
      found[rest.substr(0, rest.find('/'))] = rest.find('/') != rest.npos;
    }
    if (found.empty()) throw Error(Errc::io, "cannot list ", folder, ": it is not there");
    std::vector<Entry> out;
    for (const auto& [name, is_folder] : found) out.push_back({name, is_folder});
    return out;
  }
  std::shared_ptr<const RandomFile> open(const std::string& path) const override {
    const auto it = files_.find(path);
    if (it == files_.end()) throw Error(Errc::io, "cannot open ", path, ": it is not there");
    return std::make_shared<File>(path, it->second, path == broken_);
  }

 private:
  class File final : public RandomFile {
   public:
    File(std::string path, std::string bytes, bool broken)
        : path_(std::move(path)), bytes_(std::move(bytes)), broken_(broken) {}
    const std::string& path() const override { return path_; }
    int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
    int64_t read(int64_t offset, std::span<char> into) const override {
      if (broken_) throw Error(Errc::io, "cannot read ", path_, ": the fake refuses");
      const size_t at = std::min(static_cast<size_t>(offset), bytes_.size());
      const size_t n = std::min(into.size(), bytes_.size() - at);
      std::memcpy(into.data(), bytes_.data() + at, n);
      return static_cast<int64_t>(n);
    }

   private:
    const std::string path_, bytes_;
    const bool broken_;
  };

  const FileMap files_;
  const std::string broken_;
};

}  // namespace troupe
