// The experiments of `troupe_bench rules`, in small: workers in virtual time, real shards and
// rules.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "bench/rules/accuracy.hpp"
#include "bench/rules/experiments.hpp"
#include "tests/support/paths.hpp"

namespace troupe::bench {
namespace {

TEST_CASE("backup workers have the published effect on 50 workers with rare delays") {
  constexpr int64_t kUpdates = 500;
  const StepTimes times = fit_step_times(kSpread, kSlowMean, kUpdates);
  std::vector<double> steps, speed_ups;
  for (int32_t b = 0; b <= 5; ++b) {
    steps.push_back(median_step(b, times, kUpdates));
    speed_ups.push_back(normalised_speed_up(steps[0], steps.back(), b));
  }
  CAPTURE(steps);
  CAPTURE(speed_ups);
  for (size_t b = 1; b <= published::kFastestBackups; ++b) CHECK(steps[b] < steps[b - 1]);
  CHECK(steps[5] > steps[4]);
  CHECK(steps[4] == doctest::Approx(published::kFastestStep).epsilon(0.01));
  const auto best = std::max_element(speed_ups.begin(), speed_ups.end());
  CHECK(best - speed_ups.begin() == published::kBestBackups);
  CHECK(*best >= published::kBestSpeedUp);
}

TEST_CASE("without delays backup workers cost more than they give") {
  const StepTimes even{.median = 1, .spread = kSpread};
  const double without = median_step(0, even, 100);
  for (int32_t b = 1; b <= 5; ++b)
    CHECK(normalised_speed_up(without, median_step(b, even, 100), b) < 1);
}

TEST_CASE("a synchronous step is longer than an asynchronous one, more so with more workers") {
  const StepTimes times{
      .median = 1.5, .spread = kSpread, .slow_share = 0.1, .slow_mean = kSlowMean};
  const StepPair few = sync_and_async(25, times, 40), many = sync_and_async(100, times, 40);
  CHECK(few.sync > few.async);
  CHECK(many.sync / many.async > few.sync / few.async);
}

TEST_CASE("the work of a shard for a message does not grow with the number of workers") {
  const StepTimes times{.median = 1, .spread = kSpread, .slow_share = 0.1, .slow_mean = kSlowMean};
  for (const char* const text : {"sync", "sync-backup:4", "ssp:0", "ssp:3", "async"}) {
    CAPTURE(text);
    const auto work = [&](int32_t workers) {  // messages, and looks at replicas and waiting pulls
      const StepCost cost = step_cost(aggregation_from_string(text), workers, 2, times, 3);
      CHECK(cost.messages > 3.9 * 2 * workers * (text == std::string("async") ? 0.9 : 1));
      return (cost.messages + cost.looks) / cost.messages;
    };
    CHECK(work(300) < 1.5 * work(30));
  }
}

TEST_CASE("workers in virtual time learn the digits under each rule") {
  const Dataset digits = load_digits(source_dir() + "/data/digits.csv.gz");
  const StepTimes times{
      .median = 1.5, .spread = kSpread, .slow_share = 0.1, .slow_mean = kSlowMean};
  int64_t synchronous = 0;
  for (const char* const text : {"sync", "sync-backup:2", "ssp:1", "async-damped"}) {
    CAPTURE(text);
    const Aggregation rule = aggregation_from_string(text);
    const Learning learned = learn_digits(digits, rule, times, 60);
    CHECK(learned.accuracy.front().second < 20);  // of ten classes
    CHECK(learned.accuracy.back().second > 75);
    CHECK((learned.staleness > 0) == !rule.by_steps());
    if (rule == Aggregation::sync) synchronous = learned.updates;
    CHECK((learned.updates > synchronous) == (rule != Aggregation::sync));
  }
}

}  // namespace
}  // namespace troupe::bench
