// Reads /proc. A node has a settling time before its first look counts, and peaks of single looks
// do not count.
#include "apps/troupe/chaos/leaks.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "troupe/error.hpp"

using namespace std::chrono_literals;
using troupe::detail::concat;

namespace {

constexpr auto kSettle = 3s;     // of a process, before the first look
constexpr auto kApart = 10s;     // of the first and the last one
constexpr int kLooks = 5;        // of which the largest, or the smallest, counts
constexpr int64_t kPercent = 5;  // that a process may grow
constexpr int64_t kKibAlways = 4096, kCountAlways = 2;  // growth of a small number is none

bool grown(int64_t before, int64_t now, int64_t always) {
  return now > before + std::max(always, before * kPercent / 100);
}

}  // namespace

void Leaks::look(const std::string& node, pid_t pid, Time::time_point now) {
  Process& process = processes_.try_emplace(pid, Process{node, now}).first->second;
  if (now - process.first < kSettle) return;
  const std::string folder = "/proc/" + std::to_string(pid);
  std::error_code gone;
  Look look;
  for (auto it = std::filesystem::directory_iterator(folder + "/fd", gone);
       !gone && it != std::filesystem::directory_iterator(); it.increment(gone))
    ++look.files;
  std::ifstream in(folder + "/status");
  for (std::string word; in >> word;) {
    if (word == "Threads:") in >> look.threads;
    if (word == "VmRSS:") in >> look.kib;
  }
  if (look.threads == 0 || look.kib == 0) return;
  process.last = now;
  if (process.looks++ < kLooks) {
    process.before.files = std::max(process.before.files, look.files);
    process.before.threads = std::max(process.before.threads, look.threads);
    process.before.kib = std::max(process.before.kib, look.kib);
  }
  process.now.push_back(look);
  if (process.now.size() > kLooks) process.now.pop_front();
}

bool Leaks::is_comparable(const Process& process) {
  return process.looks >= 2 * kLooks && process.last - process.first >= kApart;
}

int Leaks::compared() const {
  return static_cast<int>(std::count_if(processes_.begin(), processes_.end(),
                                        [](const auto& p) { return is_comparable(p.second); }));
}

std::vector<std::string> Leaks::found() const {
  std::vector<std::string> out;
  for (const auto& [pid, process] : processes_) {
    if (!is_comparable(process)) continue;
    const auto compare = [&, pid = pid, &process = process](const char* what, int64_t Look::*field,
                                                            int64_t always) {
      int64_t now = process.now.front().*field;
      for (const Look& look : process.now) now = std::min(now, look.*field);
      if (grown(process.before.*field, now, always))
        out.push_back(concat(process.node, " (pid ", pid, ") has grown: ", what, " ",
                             process.before.*field, " -> ", now));
    };
    compare("open files", &Look::files, kCountAlways);
    compare("threads", &Look::threads, kCountAlways);
    compare("memory in KiB", &Look::kib, kKibAlways);
  }
  return out;
}
