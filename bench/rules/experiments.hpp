// The experiments of `troupe_bench rules`: rules of training/rules in real shards, with workers in
// virtual time (virtual_workers.hpp), and the numbers that were published about them. The same
// arguments give the same results.
// Owner: none, functions of values. Thread: any.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/rules/virtual_workers.hpp"

namespace troupe::bench {

// Abadi et al.: TensorFlow: a system for large-scale machine learning, OSDI 2016.
namespace published {
constexpr int32_t kWorkers = 50;        // 6.3, figure 8: Inception-v3
constexpr int32_t kBestBackups = 3;     // with the best normalised speed-up
constexpr double kBestSpeedUp = 1.095;  // which is t(0) / t(b) * 50 / (50 + b)
constexpr int32_t kFastestBackups = 4;  // with the shortest median step
constexpr double kFastestStep = 1.93;   // its seconds
constexpr double kSyncOfAsync = 1.10;   // 6.3: a median synchronous step, in asynchronous ones
// 6.2, figure 6: a worker reads 100 MB from 16 ps tasks in 147 ms, and each of 100 in 613 ms. The
// model has about as many bytes, on 17 ps tasks.
constexpr double kTransferSeconds = (0.613 - 0.147) / 99 * 16 / 17;
}  // namespace published

// Workers that train parameters of a single element, one on each shard: the time of steps does not
// depend on them.
VirtualWorkers plain_workers(const Aggregation& rule, int32_t workers, const StepTimes& times,
                             int32_t shards = 1);

// The rule of n workers and b backups: `sync` for none.
Aggregation rule_with_backups(int32_t backups);

// Seconds: the median time from update to update of 50 workers and the backups.
double median_step(int32_t backups, const StepTimes& times, int64_t updates);
// t(0) / t(b) * 50 / (50 + b): the speed-up, less by the share of workers added for it.
double normalised_speed_up(double without, double with, int32_t backups);

// The times of a worker's steps that give the published speed-up with 3 backups. The share of steps
// with a delay is fitted to that speed-up alone. The median follows from the published seconds with
// 4 backups, which give the unit; `spread` and `slow_mean` are given: those below were chosen for
// the published places of the optima. Throws: Error(invalid_argument) if no share gives the
// speed-up.
constexpr double kSpread = 0.02, kSlowMean = 0.15;
StepTimes fit_step_times(double spread, double slow_mean, int64_t updates);

// A median step of so many workers under `sync` and under `async`, from pull to acknowledgement.
struct StepPair {
  double sync = 0, async = 0;
};
StepPair sync_and_async(int32_t workers, const StepTimes& times, int64_t steps);

// One step of each of so many workers: the messages to and from the shards; the replicas and the
// waiting pulls that the shards looked at one by one to answer them; and the CPU seconds of the
// shards and the workers' loop, without computing and without sending.
struct StepCost {
  double messages = 0, looks = 0, seconds = 0;
};
StepCost step_cost(const Aggregation& rule, int32_t workers, int32_t shards, const StepTimes& times,
                   int64_t steps);

// The CPU seconds that the program's loop (training/loop/train_loop.hpp) takes for a step of each
// of so many workers, which end theirs one after the other; a checkpoint each ten steps.
double loop_cost(int32_t workers, int64_t steps);

}  // namespace troupe::bench
