// Runs somebody's program, which a variable of the environment asks to write a file of ours.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "apps/scratch_folder.hpp"
#include "troupe/error.hpp"

// All of a file; of standard input for "-". Throws: Error(io) naming the file, and `what` it should
// be; Error(bad_data) for more than a person would look at.
inline std::string read_file(const std::string& path, const char* what) {
  constexpr size_t kBytesMax = size_t{1} << 30, kPart = size_t{1} << 16;
  const bool folder = std::filesystem::is_directory(path);
  // A device may never end, unless somebody types its text.
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

// The texts that the sessions of one program have written, in the order of their making.
struct ProgramTexts {
  std::string program;
  std::vector<std::string> sessions;  // at least one

  // That of session `number`, counted from 1; 0: of the last one, and if there are several, that
  // is said on standard error. Throws: Error(invalid_argument) for one that there is not.
  const std::string& of(const char* verb, int number) const {
    const auto count = static_cast<int>(sessions.size());
    if (number < 0 || number > count)
      throw troupe::Error(troupe::Errc::invalid_argument, "--session ", number, ": ", program,
                          " has made ", count, count == 1 ? " session" : " sessions",
                          " that could be shown, counted from 1");
    if (number == 0 && count > 1)
      std::cerr << "troupe " << verb << ": " << program << " has made " << count
                << " sessions; this is the last one, and --session 1 to " << count - 1
                << " shows another\n";
    return sessions[static_cast<size_t>(number > 0 ? number : count) - 1];
  }
};

// The texts that `command` writes into the file that `variable` names to it, and those beside it;
// what it prints comes to our standard error. Throws: Error(invalid_argument) if it cannot be run,
// has failed, or has written nothing.
inline ProgramTexts texts_from_program(const std::vector<std::string>& command,
                                       const char* variable, const std::string& remedy) {
  using troupe::Errc;
  using troupe::Error;
  constexpr int kSessionsMax =
      256;  // as many as a process hands out (actors/observe/handed_out.hpp)
  const ScratchFolder folder;
  const std::string path = (folder.path() / "session").string();
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw Error(Errc::io, "cannot start ", command[0], ": ", std::strerror(errno));
  if (pid == 0) {
    setenv(variable, path.c_str(), 1);
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
  ProgramTexts out{command[0], {}};
  for (int number = 1; number <= kSessionsMax; ++number)  // one may have written nothing
    if (const std::string file = number == 1 ? path : path + "." + std::to_string(number);
        std::filesystem::exists(file))
      out.sessions.push_back(read_file(file, "program"));
  if (!out.sessions.empty()) return out;
  throw Error(Errc::invalid_argument, command[0],
              WIFSIGNALED(status) ? " was ended by a signal" : " has ended",
              " and has written nothing; ", remedy);
}

// The number that --session gives, 0 without it. Throws: Error(invalid_argument) where there is
// nothing to choose from, and for a number that no session has.
inline int session_of(std::optional<int> given, bool of_program) {
  if (!given) return 0;
  const int number = *given;
  if (!of_program)
    throw troupe::Error(troupe::Errc::invalid_argument,
                        "--session chooses one of a PROGRAM; FILE is of one already");
  if (number < 1)
    throw troupe::Error(troupe::Errc::invalid_argument, "--session is ", number,
                        "; sessions count from 1, in the order of their making");
  return number;
}
