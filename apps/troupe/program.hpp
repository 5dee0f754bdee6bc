// Runs somebody's program, which a variable of the environment asks to write a file of ours.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "troupe/error.hpp"

// A file of its own in the folder for temporary ones; gone with this object.
class ScratchFile {
 public:
  ScratchFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-XXXXXX").string();
    const int fd = mkstemp(pattern.data());
    if (fd < 0)
      throw troupe::Error(troupe::Errc::io, "no temporary file ", pattern, ": ",
                          std::strerror(errno), "; let TMPDIR name a folder to write into");
    close(fd);
    path_ = pattern;
  }
  ~ScratchFile() { std::remove(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// All of a file; of standard input for "-". Throws: Error(io) naming the file, and `what` it should
// be; Error(bad_data) for more than a person would look at.
inline std::string read_file(const std::string& path, const char* what) {
  constexpr size_t kBytesMax = size_t{1} << 30, kPart = size_t{1} << 16;
  const bool folder = std::filesystem::is_directory(path);
  // What may never end, unless somebody types it.
  const bool device =
      std::filesystem::is_character_file(path == "-" && !isatty(0) ? "/dev/stdin" : path);
  errno = 0;
  std::ifstream file;
  if (path != "-" && !folder && !device) file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  std::string text;
  const bool read = path == "-" ? !device : file.is_open();
  while (read && in.good()) {
    const size_t before = text.size();
    if (before > kBytesMax)
      throw troupe::Error(troupe::Errc::bad_data, path == "-" ? "standard input" : path,
                          " is larger than 1 GiB; give a ", what);
    text.resize(before + kPart);
    in.read(text.data() + before, kPart);
    text.resize(before + static_cast<size_t>(in.gcount()));
  }
  if (!read || in.bad())
    throw troupe::Error(troupe::Errc::io, "cannot read ", path, ": ",
                        folder   ? "it is a folder"
                        : device ? "it is a device"
                                 : std::strerror(errno ? errno : EIO),
                        "; give a ", what);
  return text;
}

// The text that `command` writes into the file that `variable` names to it; what it prints comes to
// our standard error. Throws: Error(invalid_argument) if it cannot be run, has failed, or has
// written nothing.
inline std::string text_from_program(const std::vector<std::string>& command, const char* variable,
                                     const std::string& remedy) {
  using troupe::Errc;
  using troupe::Error;
  const ScratchFile file;
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw Error(Errc::io, "cannot start ", command[0], ": ", std::strerror(errno));
  if (pid == 0) {
    setenv(variable, file.path().c_str(), 1);
    dup2(2, 1);
    execvp(words[0], words.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw Error(Errc::invalid_argument, "cannot run ", command[0],
                ": it is not there, or is no program");
  std::string text = read_file(file.path(), "program");
  if (!text.empty()) return text;
  throw Error(Errc::invalid_argument, command[0],
              WIFSIGNALED(status) ? " was ended by a signal" : " has ended",
              " and has written nothing; ", remedy);
}
