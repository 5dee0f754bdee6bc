// Backup workers, and synchronous against asynchronous steps.
#include "bench/rules/experiments.hpp"

#include <algorithm>
#include <ctime>
#include <deque>

#include "training/loop/train_loop.hpp"
#include "troupe/error.hpp"

namespace troupe::bench {
namespace {

constexpr int64_t kUntimed = 5;  // steps at the begin, when all workers pull at once

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_worker_step(const Aggregation& rule, int32_t workers, const StepTimes& times,
                          int64_t steps) {
  VirtualWorkers all = plain_workers(rule, workers, times);
  all.run_to_version((kUntimed + steps) * (rule.by_steps() ? 1 : workers));
  return median({all.steps().begin() + kUntimed * workers, all.steps().end()});
}

// In which share of steps a delay makes `backups` as useful as was published.
double fit_slow_share(StepTimes times, int64_t updates) {
  const auto too_few = [&](double share) {
    times.slow_share = share;
    return normalised_speed_up(median_step(0, times, updates),
                               median_step(published::kBestBackups, times, updates),
                               published::kBestBackups) < published::kBestSpeedUp;
  };
  constexpr double kStep = 0.02;
  double share = kStep;
  while (too_few(share))
    if ((share += kStep) > 0.5)
      throw Error(Errc::invalid_argument, "no share of delayed steps makes ",
                  published::kBestBackups, " backups as useful as published: delays of ",
                  times.slow_mean, " steps are too short for steps of a spread of ", times.spread);
  double low = share - kStep;
  for (int i = 0; i < 8; ++i) {
    const double middle = (low + share) / 2;
    (too_few(middle) ? low : share) = middle;
  }
  return share;
}

double cpu_seconds() {  // of this thread
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

VirtualWorkers plain_workers(const Aggregation& rule, int32_t workers, const StepTimes& times,
                             int32_t shards) {
  const Tensor one = Tensor::of<float>({1}, {1});
  std::vector<Slice> slices;
  for (int32_t i = 0; i < shards; ++i)
    slices.push_back({.id = static_cast<uint32_t>(i),
                      .parameter = detail::concat("w", i),
                      .dtype = DType::f32,
                      .shape = {1},
                      .size = 1,
                      .optimizer = sgd(1e-3),
                      .shard = i});
  const std::vector<Tensor> ones(slices.size(), one);
  return {{.rule = rule,
           .workers = workers,
           .times = times,
           .transfer_seconds = published::kTransferSeconds},
          slices,
          ones,
          [ones](int32_t, int64_t, const std::vector<Tensor>&) { return ones; }};
}

Aggregation rule_with_backups(int32_t backups) {
  if (backups == 0) return Aggregation::sync;
  return {Aggregation::Kind::sync_backup, backups};
}

double median_step(int32_t backups, const StepTimes& times, int64_t updates) {
  VirtualWorkers all =
      plain_workers(rule_with_backups(backups), published::kWorkers + backups, times);
  all.run_to_version(kUntimed + updates);
  std::vector<double> seconds;
  for (size_t i = kUntimed; i < all.updates().size(); ++i)
    seconds.push_back(all.updates()[i] - all.updates()[i - 1]);
  return median(std::move(seconds));
}

double normalised_speed_up(double without, double with, int32_t backups) {
  constexpr double kWorkers = published::kWorkers;
  return without / with * kWorkers / (kWorkers + backups);
}

StepTimes fit_step_times(double spread, double slow_mean, int64_t updates) {
  StepTimes times{.median = published::kFastestStep, .spread = spread, .slow_mean = slow_mean};
  times.slow_share = fit_slow_share(times, updates);
  for (int i = 0; i < 2; ++i) {  // the share depends little on the median
    times.median +=
        published::kFastestStep - median_step(published::kFastestBackups, times, updates);
    times.slow_share = fit_slow_share(times, updates);
  }
  return times;
}

StepPair sync_and_async(int32_t workers, const StepTimes& times, int64_t steps) {
  return {.sync = median_worker_step(Aggregation::sync, workers, times, steps),
          .async = median_worker_step(Aggregation::async, workers, times, steps)};
}

StepCost step_cost(const Aggregation& rule, int32_t workers, int32_t shards, const StepTimes& times,
                   int64_t steps) {
  const int64_t updates = rule.by_steps() ? 1 : workers;
  VirtualWorkers all = plain_workers(rule, workers, times, shards);
  all.run_to_version(updates);
  const int64_t messages = all.messages(), looks = all.looks();
  const double begin = cpu_seconds();
  all.run_to_version(updates * (1 + steps));
  const double seconds = cpu_seconds() - begin;
  const auto a_step = [&](int64_t n) {
    return static_cast<double>(n) / static_cast<double>(steps);
  };
  return {.messages = a_step(all.messages() - messages),
          .looks = a_step(all.looks() - looks),
          .seconds = seconds / static_cast<double>(steps)};
}

double loop_cost(int32_t workers, int64_t steps) {
  const TrainLoop::Millis now(0);
  TrainLoop::Plan plan{.steps = steps, .checkpoint_every = 10, .checkpoints = true};
  for (int32_t replica = 0; replica < workers; ++replica) plan.replicas.push_back(replica);
  const double begin = cpu_seconds();
  TrainLoop loop(std::move(plan), {});
  std::deque<TrainAction> open;
  const auto take = [&open](const TrainActions& actions) {
    open.insert(open.end(), actions.begin(), actions.end());
  };
  take(loop.begin(now));
  while (!open.empty()) {
    const TrainAction action = std::move(open.front());
    open.pop_front();
    if (action.kind == TrainAction::start) {
      take(loop.step_done(action.replica, action.step, 1, now));
    } else if (action.kind == TrainAction::checkpoint) {
      take(loop.checkpoint_captured(now));
      take(loop.checkpoint_ended(Errc::ok, {}, now));
    }
  }
  if (!loop.ended()) throw InternalError("the loop has not ended its ", steps, " steps");
  return (cpu_seconds() - begin) / static_cast<double>(steps);
}

}  // namespace troupe::bench
