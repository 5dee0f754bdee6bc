// Faults of `troupe chaos`: their text, and schedules that a seed draws. A schedule is complete
// before a run begins, so that a run without one fault has all others.
//
// A fault is SECONDS:KIND:PROCESS[>PROCESS][:MILLISECONDS]. SECONDS count from the first step of
// the program. A process is worker/1, ps/0 or program; the place of disk_full is `disk`.
//
// Owner: the code that draws or reads them. Thread: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

enum class FaultKind : uint8_t {
  kill,
  stop,
  slow,
  leave,
  join,
  cut,
  cut_from,
  delay,
  throttle,
  reset,
  corrupt,
  disk_full,
};
inline constexpr int kFaultKinds = 12;
const char* to_string(FaultKind kind);
bool is_of_link(FaultKind kind);
bool has_end(FaultKind kind);  // it lasts for a time

struct Fault {
  std::chrono::milliseconds at{0};
  FaultKind kind = FaultKind::kill;
  std::string from, to = {};  // `to`: of a link
  std::chrono::milliseconds lasts{0};

  std::string place() const;  // "worker/1", "worker/1>ps/0"
};
std::string to_string(const Fault& fault);
std::string to_string(const std::vector<Fault>& faults);  // with spaces between them

struct Processes {
  int ps = 1, workers = 1;
  std::vector<std::string> nodes() const;  // "ps/0", ..., "worker/0", ...
};

// Words that spaces or commas part. Throws: Error(invalid_argument) naming the word and the right
// form: for an unknown kind or process, a bad time, a time of a kind that has none.
std::vector<Fault> read_faults(const std::string& text, const Processes& processes);

struct Weights {
  int of[kFaultKinds] = {};
  int& operator[](FaultKind kind) { return of[static_cast<int>(kind)]; }
  int operator[](FaultKind kind) const { return of[static_cast<int>(kind)]; }
};
// All kinds; those that happen more often in clusters have larger weights.
Weights usual_weights();
// "kill=3,stop,reset=2". Throws: Error(invalid_argument) for an unknown kind and a bad weight.
Weights read_weights(const std::string& text);

struct ScheduleOptions {
  uint64_t seed = 0;
  std::chrono::milliseconds every{10'000}, lasts{600'000};
  Processes processes;
  Weights weights;
  bool kill_program = false;
};
// One seed gives one schedule, on every machine.
std::vector<Fault> draw_faults(const ScheduleOptions& options);
