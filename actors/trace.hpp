// Tracer: what one process did when, as Chrome trace events (chrome://tracing, Perfetto). Owned by
// the process's worker or session; off by default, and then it costs one branch a step.
//
// Times are wall-clock microseconds, so that the processes of one host line up in one file.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

class Tracer {
 public:
  // `process` names the rows of this process; `pid` must differ between the processes of one file.
  explicit Tracer(std::string process, int64_t pid) : process_(std::move(process)), pid_(pid) {}

  bool on() const { return on_.load(std::memory_order_relaxed); }
  void set(bool on) { on_.store(on, std::memory_order_relaxed); }
  static int64_t now_ns();  // nanoseconds since the Unix epoch

  // One bar: `name` on the row of the calling thread. `category`: kernel, send, receive, wait,
  // step, parameter.
  void record(const char* category, const std::string& name, int64_t begin_ns, int64_t end_ns,
              int64_t run);
  // All events so far as comma-separated JSON objects; forgets them.
  std::string take();

 private:
  static constexpr size_t kEventsMax = 200'000;  // about 40 MB; later events are counted, not kept
  struct Event {
    const char* category;
    std::string name;
    int64_t begin_ns, end_ns, run;
    int thread;
  };
  const std::string process_;
  const int64_t pid_;
  std::atomic<bool> on_{false};
  std::mutex mutex_;  // guards the rest
  std::vector<Event> events_;
  int64_t dropped_ = 0;
};

// The events of several processes as one Chrome trace file.
std::string chrome_trace(const std::vector<std::string>& events_of_processes);

}  // namespace troupe
