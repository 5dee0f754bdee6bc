// Leaks: compares the open files, threads and memory of each node at the beginning and at the end
// of a run under faults, both when nothing is out of order.
//
// Owner: ChaosRun. Thread: its own.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <vector>

class Leaks {
 public:
  using Time = std::chrono::steady_clock;

  // To be called now and then, while everything is healed.
  void look(const std::string& node, pid_t pid, Time::time_point now);
  // A line for each resource of a process that has grown by more than the bound, and the number of
  // processes that could be compared.
  std::vector<std::string> found() const;
  int compared() const;

 private:
  struct Look {
    int64_t files = 0, threads = 0, kib = 0;
  };
  struct Process {
    std::string node;
    Time::time_point first{}, last{};
    int looks = 0;
    Look before = {};           // the largest of the first ones
    std::deque<Look> now = {};  // the newest ones
  };
  static bool is_comparable(const Process& process);

  std::map<pid_t, Process> processes_;
};
