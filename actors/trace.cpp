// Implements actors/trace.hpp.
#include "actors/trace.hpp"

#include <chrono>
#include <cstdio>

namespace troupe {
namespace {

int thread_number() {
  static std::atomic<int> next{1};
  thread_local const int mine = next++;
  return mine;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\u%04x", c);
      out += hex;
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

int64_t Tracer::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void Tracer::record(const char* category, const std::string& name, int64_t begin_ns, int64_t end_ns,
                    int64_t run) {
  const int thread = thread_number();
  std::lock_guard lock(mutex_);
  if (events_.size() >= kEventsMax) {
    ++dropped_;
    return;
  }
  events_.push_back({category, name, begin_ns, end_ns, run, thread});
}

std::string Tracer::take() {
  std::vector<Event> events;
  int64_t dropped = 0;
  {
    std::lock_guard lock(mutex_);
    events.swap(events_);
    std::swap(dropped, dropped_);
  }
  std::string out = "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + std::to_string(pid_) +
                    ",\"args\":{\"name\":" + quoted(process_) + "}}";
  char text[192];
  for (const Event& e : events) {
    std::snprintf(
        text, sizeof text,
        ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"pid\":%lld,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
        "\"args\":{\"run\":%lld},\"name\":",
        e.category, static_cast<long long>(pid_), e.thread, static_cast<double>(e.begin_ns) / 1e3,
        static_cast<double>(e.end_ns - e.begin_ns) / 1e3, static_cast<long long>(e.run));
    out += text + quoted(e.name) + "}";
  }
  if (dropped > 0)
    out += ",\n{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":" + std::to_string(pid_) +
           ",\"args\":{\"labels\":\"" + std::to_string(dropped) + " later events not kept\"}}";
  return out;
}

std::string chrome_trace(const std::vector<std::string>& events_of_processes) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  bool first = true;
  for (const std::string& events : events_of_processes) {
    if (events.empty()) continue;
    if (!first) out += ",\n";
    out += events;
    first = false;
  }
  return out + "\n]}\n";
}

}  // namespace troupe
