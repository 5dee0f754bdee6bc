// Records spans and memory samples, and writes them as Chrome trace events.
#include "actors/observe/trace.hpp"

#include "troupe/error.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

// Microseconds with the nanoseconds after the point. Integers: a double cannot hold both.
std::string microseconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%lld.%03lld", ns < 0 ? "-" : "",
                static_cast<long long>(std::abs(ns) / 1000),
                static_cast<long long>(std::abs(ns) % 1000));
  return text;
}

bool on_thread(const char* category) {
  for (const char* c : {"kernel", "job", "launch", "send", "update"})
    if (std::strcmp(category, c) == 0) return true;
  return false;
}

}  // namespace

int64_t Tracer::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void Tracer::start() {
  std::lock_guard lock(mutex_);
  spans_.clear();
  memory_.clear();
  memory_due_ns_.store(0, std::memory_order_relaxed);
  dropped_ = 0;
  started_ns_.store(now_ns(), std::memory_order_relaxed);
  on_.store(true, std::memory_order_relaxed);
}

void Tracer::record(TraceSpan span) {
  if (!on()) return;
  const int thread = thread_number();
  std::lock_guard lock(mutex_);
  if (spans_.size() >= kSpansMax) {
    ++dropped_;
    return;
  }
  spans_.push_back({std::move(span), thread});
}

void Tracer::record_memory(const std::string& device, Memory& memory, int64_t begins,
                           int64_t ends) {
  if (!on()) return;
  std::lock_guard lock(mutex_);  // so that a sample covers exactly the time since the last one
  const int64_t at = now_ns();
  memory_due_ns_.store(at + kSampleNs, std::memory_order_relaxed);
  if (memory_.size() >= kSpansMax) return;
  const int64_t peak = memory.take_peak();
  const MemoryStats now = memory.stats();
  memory_.push_back({device, at, now.used_bytes, now.reserved_bytes, peak, begins, ends});
}

std::string Tracer::take(int64_t origin_ns) {
  std::vector<Recorded> spans;
  std::vector<MemorySample> memory;
  int64_t dropped = 0;
  {
    std::lock_guard lock(mutex_);
    spans.swap(spans_);
    memory.swap(memory_);
    std::swap(dropped, dropped_);
  }
  const std::string pid = ",\"pid\":" + std::to_string(pid_);
  std::string out = "{\"ph\":\"M\",\"name\":\"process_name\"" + pid +
                    ",\"args\":{\"name\":" + quoted(process_) + "}}";
  int64_t id = 0;
  for (const auto& [span, thread] : spans) {
    const int64_t begin = span.begin_ns - origin_ns, end = span.end_ns - origin_ns;
    const std::string head = std::string("\",\"cat\":\"") + span.category +
                             "\",\"name\":" + quoted(span.name) + pid +
                             ",\"tid\":" + std::to_string(thread);
    std::string args = ",\"args\":{\"run\":" + std::to_string(span.run);
    if (!span.op.empty()) args += ",\"op\":" + quoted(span.op);
    if (!span.members.empty()) args += ",\"members\":" + quoted(span.members);
    if (span.bytes >= 0) args += ",\"bytes\":" + std::to_string(span.bytes);
    if (span.flops >= 0) args += ",\"flops\":" + std::to_string(span.flops);
    args += "}";
    if (on_thread(span.category)) {
      out += detail::concat(",\n{\"ph\":\"X", head, ",\"ts\":", microseconds(begin),
                            ",\"dur\":", microseconds(end - begin), args, "}");
      continue;
    }
    const std::string mine = head + ",\"id2\":{\"local\":\"" + std::to_string(++id) + "\"}";
    out += detail::concat(",\n{\"ph\":\"b", mine, ",\"ts\":", microseconds(begin), args, "}");
    out += detail::concat(",\n{\"ph\":\"e", mine, ",\"ts\":", microseconds(end), "}");
  }
  for (const MemorySample& m : memory) {
    out += detail::concat(
        ",\n{\"ph\":\"C\",\"cat\":\"memory\",\"name\":", quoted("memory of " + m.device), pid,
        ",\"ts\":", microseconds(m.at_ns - origin_ns), ",\"peak\":", m.peak_bytes);
    if (m.begins >= 0) out += ",\"begins\":" + std::to_string(m.begins);
    if (m.ends >= 0) out += ",\"ends\":" + std::to_string(m.ends);
    out += detail::concat(",\"args\":{\"used\":", m.used_bytes, ",\"reserved\":", m.reserved_bytes,
                          "}}");
  }
  if (dropped > 0)
    out += ",\n{\"ph\":\"M\",\"name\":\"process_labels\"" + pid + ",\"args\":{\"labels\":\"" +
           std::to_string(dropped) + " later events not kept\"}}";
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

int64_t clock_ahead_ns(const std::vector<ClockSample>& samples) {
  const auto best =
      std::min_element(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
        return a.answered_ns - a.asked_ns < b.answered_ns - b.asked_ns;
      });
  if (best == samples.end()) return 0;
  if (best->asked_ns <= best->read_ns && best->read_ns <= best->answered_ns) return 0;
  return best->read_ns - (best->asked_ns + (best->answered_ns - best->asked_ns) / 2);
}

}  // namespace troupe
