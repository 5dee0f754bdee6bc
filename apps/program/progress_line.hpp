// ProgressLine: one line that changes in place on a terminal; a line now and then in a pipe.
//
// Owner: the program. Thread: its main one.
#pragma once

#include <chrono>
#include <string>

#include "troupe/training.hpp"

class ProgressLine {
 public:
  explicit ProgressLine(std::string label);
  ~ProgressLine() { end(); }
  // "LABEL step 7/100  loss 0.1234  MORE  12 examples/s  ETA 3 s"; "step 7" where the number of
  // steps is not known.
  void show(const troupe::TrainProgress& progress, const std::string& more = "");
  // The same for work that is no training: "LABEL trees 7/100  MORE  12 trees/s  ETA 3 s". The rate
  // is that since the line was made.
  void show(const char* unit, int64_t done, int64_t all, const std::string& more = "");
  void end();  // the next output begins a line

 private:
  bool due(int64_t done, int64_t all);
  void print(const std::string& text);

  const std::string label_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point begun_;
  bool open_ = false;
  int64_t shown_step_ = -1;
  std::chrono::steady_clock::time_point shown_{};
};
