// The memory that this process holds, in MiB: for the benchmarks, and for the loops of oneDNN
// calls, which do not use the engine.
#pragma once

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace troupe::bench {

inline double rss_mib_now() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    double kib = 0;
    if (word == "VmRSS:" && in >> kib) return kib / 1024;
  }
  return 0;
}

inline double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace troupe::bench
