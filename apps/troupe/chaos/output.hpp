// RunOutput: the standard output of `troupe chaos`, where the lines of the program and of the
// faults meet. A reader that is slow delays the program, and never the loop that serves the links.
//
// Owner: the loop. Thread: its own.
#pragma once

#include <poll.h>

#include <regex>
#include <string>
#include <string_view>
#include <vector>

class RunOutput {
 public:
  // `result`: the last line of the program that matches is its result.
  explicit RunOutput(const std::string& result);
  ~RunOutput();
  RunOutput(const RunOutput&) = delete;

  void say(const std::string& line);
  // The end of a pipe for the standard output of a program that starts now. Throws: Error(io).
  int open_pipe();
  // The matched part of the newest line that matched: its first group, or all of it.
  const std::string& result() const { return result_; }
  void forget_result() { result_.clear(); }

  void ask(std::vector<pollfd>& files) const;
  void serve();
  // Reads all of the program, and writes everything, unless nobody reads.
  void finish();

 private:
  bool read_some();
  void take_lines();
  void match(std::string_view line);
  bool write_some();

  std::regex pattern_;
  std::string result_;
  int program_ = -1;     // the pipe; -1: none
  std::string partial_;  // of the program's line that has not ended
  std::string waiting_;  // to be written
  bool closed_ = false;  // nobody reads it
};
