// Local files, and the files that a path or a pattern names.
#include "data/files.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "troupe/error.hpp"

namespace troupe {
namespace {

class LocalFile final : public RandomFile {
 public:
  explicit LocalFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0)
      throw Error(Errc::io, "cannot open ", path, ": ", std::strerror(errno),
                  "; check the path and its permissions");
    try {
      size_ = regular_size();
    } catch (const Error&) {
      ::close(fd_);  // no destructor runs
      throw;
    }
  }
  ~LocalFile() override { ::close(fd_); }
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;

  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }
  int64_t read(int64_t offset, std::span<char> into) const override {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t n =
          ::pread(fd_, into.data() + done, into.size() - done, offset + static_cast<int64_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        throw Error(Errc::io, "cannot read ", path_, " at byte ",
                    offset + static_cast<int64_t>(done), ": ", std::strerror(errno));
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return static_cast<int64_t>(done);
  }

 private:
  int64_t regular_size() const {
    struct stat s {};
    if (::fstat(fd_, &s) != 0)
      throw Error(Errc::io, "cannot read ", path_, ": ", std::strerror(errno));
    if (!S_ISREG(s.st_mode))
      throw Error(Errc::io, "cannot read ", path_, ": it is not a regular file; name one");
    return s.st_size;
  }

  const std::string path_;
  const int fd_;
  int64_t size_ = 0;
};

class LocalFiles final : public Files {
 public:
  Kind kind(const std::string& path) const override {
    struct stat s {};
    if (::stat(path.c_str(), &s) != 0) return Kind::none;
    return S_ISDIR(s.st_mode) ? Kind::folder : Kind::file;
  }
  std::vector<Entry> entries(const std::string& folder) const override {
    std::vector<Entry> out;
    std::error_code failure, no_folder;
    std::filesystem::directory_iterator it(folder, failure);
    for (; !failure && it != std::filesystem::directory_iterator(); it.increment(failure))
      out.push_back({it->path().filename().string(), it->is_directory(no_folder)});
    if (failure)
      throw Error(Errc::io, "cannot list ", folder, ": ", failure.message(),
                  "; check the path and its permissions");
    std::sort(out.begin(), out.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return out;
  }
  std::shared_ptr<const RandomFile> open(const std::string& path) const override {
    return std::make_shared<LocalFile>(path);
  }
};

bool is_pattern(std::string_view text) { return text.find_first_of("*?[") != text.npos; }

// Adds the files that match `rest`, a path or a pattern below `folder`.
void add_matches(const Files& files, const std::string& folder, std::string_view rest,
                 std::vector<std::string>& out) {
  const size_t slash = rest.find('/');
  const bool last = slash == rest.npos;
  const std::string part(rest.substr(0, slash));
  const auto add = [&](const std::string& path, bool is_folder) {
    if (last && !is_folder) out.push_back(path);
    if (!last && is_folder) add_matches(files, path, rest.substr(slash + 1), out);
  };
  if (!is_pattern(part)) {
    // Before the first slash of an absolute path there is no name.
    const std::string path = part.empty() && folder.empty() ? "/" : join_path(folder, part);
    const Files::Kind kind = files.kind(path);
    if (kind != Files::Kind::none) add(path, kind == Files::Kind::folder);
    return;
  }
  for (const Files::Entry& entry : files.entries(folder.empty() ? "." : folder))
    if (::fnmatch(part.c_str(), entry.name.c_str(), FNM_PERIOD) == 0)
      add(join_path(folder, entry.name), entry.folder);
}

std::vector<std::string> files_of_folder(const Files& files, const std::string& folder) {
  std::vector<std::string> out;
  for (const Files::Entry& entry : files.entries(folder))
    if (!entry.folder && !entry.name.starts_with('.')) out.push_back(join_path(folder, entry.name));
  if (out.empty())
    throw Error(Errc::io, "the folder ", folder,
                " has no files; name another, or a pattern for files in the folders below it");
  return out;
}

}  // namespace

const Files& local_files() {
  static const LocalFiles files;
  return files;
}

std::string join_path(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.back() == '/' ? folder + name : folder + "/" + name;
}

std::vector<std::string> list_files(const Files& files, const std::string& path) {
  const Files::Kind kind = files.kind(path);
  if (kind == Files::Kind::file) return {path};
  if (kind == Files::Kind::folder) return files_of_folder(files, path);
  if (!is_pattern(path))
    throw Error(Errc::io, "there is no file ", path, "; check the path, relative ones from ",
                "the folder that the process runs in");
  std::vector<std::string> out;
  add_matches(files, "", path, out);
  if (out.empty()) throw Error(Errc::io, "no file matches the pattern ", path, "; check it");
  return out;
}

std::vector<std::string> list_files(const Files& files, const std::vector<std::string>& paths,
                                    std::string_view of) {
  if (paths.empty())
    throw Error(Errc::invalid_argument, of, " wants at least one file in paths, got none");
  std::vector<std::string> out;
  for (const std::string& path : paths)
    for (std::string& file : list_files(files, path)) {
      files.open(file);  // now rather than in the middle of an epoch
      out.push_back(std::move(file));
    }
  return out;
}

}  // namespace troupe
