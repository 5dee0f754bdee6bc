// rules [--only A,B] [--updates N] [--shards S] [--svg FILE]: the aggregation rules with workers in
// virtual time, against published numbers. docs/learning_protocols.md has the results.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "apps/program/plot.hpp"
#include "bench/bench.hpp"
#include "bench/rules/accuracy.hpp"
#include "bench/rules/experiments.hpp"
#include "troupe/error.hpp"

namespace troupe::bench {
namespace {

// A line of the report; `was_published` is JSON, or empty.
void say(const Options& options, const char* metric, double value, const char* unit,
         std::vector<std::pair<std::string, std::string>> config, std::string was_published = {}) {
  if (!was_published.empty()) config.emplace_back("published", std::move(was_published));
  report(options, "rules", metric, value, unit, config);
}

constexpr int64_t kLearnSeconds = 400;  // virtual

int64_t updates(const Options& options) {
  const int64_t out = options.integer("updates", 2000);
  if (out < 100) throw Error(Errc::invalid_argument, "--updates wants at least 100, got ", out);
  return out;
}

StepTimes fitted(const Options& options) {
  const auto share = [&](const char* key, double usual) {
    return static_cast<double>(options.integer(key, std::lround(100 * usual))) / 100;
  };
  const double spread = share("spread-percent", kSpread), delay = share("delay-percent", kSlowMean);
  if (spread < 0 || delay <= 0)
    throw Error(Errc::invalid_argument,
                "--spread-percent wants at least 0, and --delay-percent at least 1");
  const StepTimes times = fit_step_times(spread, delay, updates(options));
  const std::vector<std::pair<std::string, std::string>> config = {
      {"spread", detail::concat(spread)}, {"mean_delay", detail::concat(delay)}};
  say(options, "fitted_share", times.slow_share * 100, "%", config);
  say(options, "fitted_median", times.median, "s", config);
  return times;
}

void backups(const Options& options) {
  const StepTimes times = fitted(options);
  const double without = median_step(0, times, updates(options));
  for (int32_t b = 0; b <= 5; ++b) {
    const double seconds = median_step(b, times, updates(options));
    const std::vector<std::pair<std::string, std::string>> config = {
        {"workers", std::to_string(published::kWorkers)}, {"backups", std::to_string(b)}};
    say(options, "median_step", seconds, "s", config,
        b == published::kFastestBackups ? detail::concat(published::kFastestStep) : "");
    say(options, "speed_up", normalised_speed_up(without, seconds, b), "times", config,
        b == published::kBestBackups ? detail::concat(published::kBestSpeedUp) : "");
  }
}

void async(const Options& options) {
  const StepTimes times = fitted(options);
  for (const int32_t workers : {25, 50, 100, 200}) {
    const StepPair steps = sync_and_async(workers, times, 100);
    const std::vector<std::pair<std::string, std::string>> config = {
        {"workers", std::to_string(workers)}};
    say(options, "sync_step", steps.sync, "s", config);
    say(options, "async_step", steps.async, "s", config);
    say(options, "sync_of_async", steps.sync / steps.async, "times", config,
        detail::concat(published::kSyncOfAsync));
  }
}

void cost_of_a_step(const Options& options) {
  const StepTimes times{.median = 1, .spread = kSpread, .slow_share = 0.1, .slow_mean = kSlowMean};
  const auto shards = static_cast<int32_t>(options.integer("shards", 100));
  for (const char* const rule : {"sync", "sync-backup:4", "ssp:0", "ssp:3", "async"})
    for (const int32_t workers : {10, 30, 100, 300, 1000}) {
      const StepCost cost = step_cost(aggregation_from_string(rule), workers, shards, times,
                                      std::max(3, 300 / workers));
      const std::vector<std::pair<std::string, std::string>> config = {
          {"rule", detail::concat("\"", rule, "\"")},
          {"workers", std::to_string(workers)},
          {"shards", std::to_string(shards)}};
      say(options, "messages_per_step", cost.messages, "1", config);
      say(options, "looks_per_step", cost.looks, "1", config);
      say(options, "cpu_per_step", cost.seconds * 1e3, "ms", config);
      say(options, "cpu_per_message", cost.seconds / cost.messages * 1e9, "ns", config);
    }
}

// The cost of the program's loop, which no rule changes.
void cost_of_the_loop(const Options& options) {
  for (const int32_t workers : {10, 30, 100, 300, 1000}) {
    const double seconds = loop_cost(workers, std::max(50, 100'000 / workers));
    const std::vector<std::pair<std::string, std::string>> config = {
        {"workers", std::to_string(workers)}};
    say(options, "loop_per_step", seconds * 1e6, "us", config);
    say(options, "loop_per_worker", seconds / workers * 1e9, "ns", config);
  }
}

// Virtual seconds to the accuracy, and a curve for each rule.
void accuracy(const Options& options) {
  const StepTimes times = fitted(options);
  const Dataset digits = load_digits(TROUPE_SOURCE_DIR "/data/digits.csv.gz");
  Plot plot{"Digits, 20 workers in virtual time", "virtual seconds", "% of the test images"};
  for (const char* const rule : {"sync", "sync-backup:2", "ssp:1", "ssp-damped:1", "async",
                                 "async-damped", "local:8", "diloco:8"}) {
    const Learning curve = learn_digits(digits, aggregation_from_string(rule), times,
                                        static_cast<double>(kLearnSeconds));
    const std::vector<std::pair<std::string, std::string>> config = {
        {"rule", detail::concat("\"", rule, "\"")},
        {"workers", std::to_string(kLearners)},
        {"learning_rate", detail::concat(curve.learning_rate)}};
    say(options, "seconds_to_accuracy", curve.reached, "s", config);
    say(options, "last_accuracy", curve.accuracy.back().second, "%", config);
    say(options, "updates", static_cast<double>(curve.updates), "1", config);
    say(options, "staleness", curve.staleness, "updates", config);
    for (const auto& [seconds, percent] : curve.accuracy) plot.add(rule, seconds, percent);
  }
  const std::string file = options.text("svg", "");
  if (file.empty()) return;
  std::ofstream to(file);
  if (!(to << to_svg(plot)).flush())
    throw Error(Errc::io, "cannot write the curves to ", file, ", which --svg names");
}

}  // namespace

int rules(const Options& options) {
  const std::string only = options.text("only", "");
  const std::vector<std::pair<std::string, std::function<void(const Options&)>>> all = {
      {"backups", backups},
      {"async", async},
      {"cost", cost_of_a_step},
      {"loop", cost_of_the_loop},
      {"accuracy", accuracy}};
  bool any = false;
  for (const auto& [name, run] : all)
    if (only.empty() || detail::concat(",", only, ",").find("," + name + ",") != std::string::npos)
      run(options), any = true;
  if (!any)
    throw Error(Errc::invalid_argument,
                "--only wants some of backups,async,cost,loop,accuracy, got \"", only, "\"");
  return 0;
}

}  // namespace troupe::bench
