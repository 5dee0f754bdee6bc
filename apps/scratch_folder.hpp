// ScratchFolder: a folder of its own in the one for temporary files, gone with this object. The
// next one of this user removes those whose process was killed.
//
// Owner: the process that made it, which holds a lock there as long as it lives. Thread: any.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "troupe/error.hpp"

class ScratchFolder {
 public:
  // Throws: Error(io).
  ScratchFolder() {
    using troupe::Errc, troupe::Error;
    std::error_code error;
    const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
    if (error)
      throw Error(Errc::io, "no folder for temporary files: ", error.message(),
                  "; let TMPDIR name one");
    remove_left(temporary);
    std::string pattern = (temporary / "troupe-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw Error(Errc::io, "no temporary folder ", pattern, ": ", std::strerror(errno),
                  "; let TMPDIR name a folder to write into");
    path_ = std::filesystem::absolute(pattern);
    // The file has its name once it is locked, so that nobody finds it without a lock.
    const std::filesystem::path fresh = path_ / "owner.new";
    fd_ = open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0)
      std::filesystem::rename(fresh, path_ / kOwner, error);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!keep_) std::filesystem::remove_all(path_, ignored);
    if (fd_ >= 0) close(fd_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  // It stays, for a person to look at it.
  void keep() {
    std::error_code ignored;
    std::filesystem::remove(path_ / kOwner, ignored);
    keep_ = true;
  }

 private:
  static constexpr const char* kOwner = "owner.lock";

  static void remove_left(const std::filesystem::path& temporary) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(temporary, error), end; !error && it != end;
         it.increment(error)) {
      const std::filesystem::path& path = it->path();
      struct stat info;
      if (!path.filename().string().starts_with("troupe-") || lstat(path.c_str(), &info) != 0 ||
          !S_ISDIR(info.st_mode) || info.st_uid != geteuid())
        continue;
      const int fd = open((path / kOwner).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
      std::error_code ignored;
      if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(path, ignored);
      if (fd >= 0) close(fd);
    }
  }

  std::filesystem::path path_;
  int fd_ = -1;  // the locked file
  bool keep_ = false;
};
