// Tracer: records the work of one process as Chrome trace events (chrome://tracing, Perfetto). Off
// by default; then it costs one branch a step. actors/cluster/survey.hpp gathers the traces of
// several processes into one time line.
// Owner: the process. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "devices/memory/memory.hpp"

namespace troupe {

// A span of time. Work of a thread is a bar on that thread's row; a wait overlaps with other spans
// and has a row of its own.
struct TraceSpan {
  // Work: kernel, job (a part of another thread's kernel), launch (a kernel handed to a device's
  // queue), send, update (a shard's). Waits: wait (a kernel that finishes later), copy (to the
  // host, before a send), receive, pull, push, step (a whole run).
  const char* category = "";
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;  // Tracer::now_ns()
  int64_t run = -1;                  // of the session; -1: not known here
  int64_t bytes = -1;                // transferred, or read and written by a kernel; -1: none
  std::string op = {};               // of a kernel
  int64_t flops = -1;                // of a kernel; -1: not known
  std::string members = {};          // of a kernel that does the work of several nodes: their names
};

class Tracer {
 public:
  // `process` names the rows of this process; `pid` must differ between the processes of one file.
  explicit Tracer(std::string process, int64_t pid) : process_(std::move(process)), pid_(pid) {}

  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Forgets earlier spans.
  void start();
  int64_t started_ns() const { return started_ns_.load(std::memory_order_relaxed); }
  void stop() { on_.store(false, std::memory_order_relaxed); }
  static int64_t now_ns();  // nanoseconds since the Unix epoch, by this host's clock

  // Any thread; does nothing while the tracer is off.
  void record(TraceSpan span);
  // Records the memory in use now, and its peak since the last sample: a line over time. Called
  // when a step begins and ends, and when wants_memory() is true, every kSampleNs. `begins`,
  // `ends`: the run that begins or ends at this moment.
  void record_memory(const std::string& device, Memory& memory, int64_t begins = -1,
                     int64_t ends = -1);
  bool wants_memory(int64_t at_ns) const {
    return at_ns >= memory_due_ns_.load(std::memory_order_relaxed);
  }
  // Returns all spans so far as comma-separated JSON objects, and forgets them. `origin_ns`: this
  // host's clock at the beginning of the common time line.
  std::string take(int64_t origin_ns);

 private:
  static constexpr int64_t kSampleNs = 100'000;
  static constexpr size_t kSpansMax = 200'000;  // about 40 MB; later spans are counted, not kept
  struct Recorded {
    TraceSpan span;
    int thread;
  };
  const std::string process_;
  const int64_t pid_;
  std::atomic<bool> on_{false};
  std::atomic<int64_t> started_ns_{0};
  std::atomic<int64_t> memory_due_ns_{0};
  std::mutex mutex_;  // guards the rest
  std::vector<Recorded> spans_;
  int64_t dropped_ = 0;
  struct MemorySample {
    std::string device;
    int64_t at_ns, used_bytes, reserved_bytes, peak_bytes, begins, ends;
  };
  std::vector<MemorySample> memory_;
};

// Puts the events of several processes into one Chrome trace file.
std::string chrome_trace(const std::vector<std::string>& events_of_processes);

// One reading of another host's clock: our clock before and after, and theirs in between.
struct ClockSample {
  int64_t asked_ns = 0, read_ns = 0, answered_ns = 0;
};
// By how much their clock is ahead of ours, from the sample with the shortest round trip (Cristian
// 1989). 0 if that sample allows that the clocks agree, as between processes of one host.
int64_t clock_ahead_ns(const std::vector<ClockSample>& samples);

}  // namespace troupe
