// Shared by the benchmarks: options, repetition, and the one output form.
//
// With --json, stdout has only lines {"bench", "metric", "value", "unit", "config"}; otherwise it
// has a table for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/resident.hpp"

namespace troupe::bench {

// The words of the command line after the benchmark's name: --key value, or --flag.
class Options {
 public:
  // `keys` and `flags` are those of the benchmark, besides the flag "json". Throws:
  // Error(invalid_argument).
  Options(const std::string& bench, const std::vector<std::string>& arguments,
          const std::vector<std::string>& keys, const std::vector<std::string>& flags);
  int64_t integer(const std::string& key, int64_t fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  bool flag(const std::string& key) const;
  bool given(const std::string& key) const;
  bool json() const { return flag("json"); }

 private:
  std::map<std::string, std::optional<std::string>> values_;
  std::map<std::string, bool> flags_;
};

// Prints one result. The values in `config` are JSON, e.g. {"nodes", "1000"}.
void report(const Options& options, const std::string& bench, const std::string& metric,
            double value, const std::string& unit,
            const std::vector<std::pair<std::string, std::string>>& config);

inline double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}
// The quantile p, in [0, 1], of a sorted copy.
double quantile(std::vector<double> values, double p);

// The benchmarks; each returns a process exit code.
int dispatch(const Options& options);
int embedding(const Options& options);
int recovery(const Options& options);
int killed(const Options& options);
int remote(const Options& options);
int train(const Options& options);
int push_pull(const Options& options);
int scale(const Options& options);
int shard(const Options& options);
int rules(const Options& options);
int collective(const Options& options);
int transfer(const Options& options);
int links(const Options& options);
int compress(const Options& options);
int footprint(const Options& options);
int graph(const Options& options);
int startup(const Options& options);
int switching(const Options& options);
int memory(const Options& options);
int mixed(const Options& options);
int ops(const Options& options);
int trace(const Options& options);
int word2vec(const Options& options);

}  // namespace troupe::bench
