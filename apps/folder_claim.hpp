// FolderClaim: a folder for one run alone, until this object goes or its process ends.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "troupe/error.hpp"

class FolderClaim {
 public:
  // `flag` is what a person gave the folder with. Throws: Error(invalid_argument) while another run
  // has it.
  FolderClaim(const std::filesystem::path& folder, const char* flag)
      : fd_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ < 0)
      throw troupe::Error(troupe::Errc::io, "cannot open the folder ", folder.string(),
                          ", given with ", flag, ": ", std::strerror(errno));
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    close(fd_);
    throw troupe::Error(troupe::Errc::invalid_argument, "another run writes into ", folder.string(),
                        "; wait for its end, or give another folder with ", flag);
  }
  ~FolderClaim() { close(fd_); }
  FolderClaim(const FolderClaim&) = delete;

 private:
  const int fd_;
};
