// VirtualWorkers: workers that train against real shards in virtual time. A worker pulls, computes
// for a time that StepTimes draws, pushes, and begins its next step when all its pushes are
// acknowledged, as a replica of train() does. The shards are training/shards/shard.hpp with their
// rule; the messages go to them directly. Pulled values and gradients
// share the link of the servers.
//
// Under a rule of local steps a worker has copies (training/parameters/replica_copy.hpp), and uses
// the link at the ends of rounds alone.
//
// A worker that is late under a rule with backups goes on at the newest step, as by TrainLoop.
// Owner: a benchmark or a test. Thread: its caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "bench/rules/shared_link.hpp"
#include "bench/rules/step_times.hpp"
#include "training/parameters/replica_copy.hpp"
#include "training/shards/shard.hpp"

namespace troupe::bench {

struct WorkerSettings {
  Aggregation rule = Aggregation::sync;
  int32_t workers = 1;
  StepTimes times = {};
  double transfer_seconds = 0;  // for which one worker's values, or its gradients, fill the link
  uint64_t seed = 1;
};

class VirtualWorkers {
 public:
  // The gradient of each slice, from the values of each, in the order of slices.
  using Compute = std::function<std::vector<Tensor>(int32_t worker, int64_t step,
                                                    const std::vector<Tensor>& values)>;
  // Slice i has the id i. Throws: as Shard; Error(invalid_argument) for no worker.
  VirtualWorkers(const WorkerSettings& settings, const std::vector<Slice>& slices,
                 const std::vector<Tensor>& initial, Compute compute);

  // Runs until the first slice has that version, or until that time.
  void run_to_version(int64_t version);
  void run_until(double seconds);

  double now() const { return now_; }
  const std::vector<double>& updates() const { return updates_; }  // their times; first slice
  // Seconds of each step of a worker, from its pull to its acknowledgement.
  const std::vector<double>& steps() const { return steps_; }
  int64_t messages() const { return messages_; }  // to and from shards
  double mean_staleness() const;                  // of the updates of the first slice
  int64_t looks() const;               // of the shards, at replicas and waiting pulls one by one
  std::vector<Tensor> values() const;  // the newest, by slice
  const Shard& shard(size_t i) const { return *shards_[i]; }

 private:
  struct Worker {
    int64_t step = 0;
    double began = 0;
    size_t open = 0;        // requests that have no answer yet
    bool over = false;      // an answer says that the step is over
    bool computed = false;  // the gradients of the step
    std::vector<Tensor> values;
    int64_t sequence = 0;
    std::vector<std::unique_ptr<ReplicaCopy>> copies;  // by slice; empty: no local steps
    // The step that it does is not the last one of a round.
    bool within_round() const { return !copies.empty() && step + 1 < copies[0]->round().end; }
  };
  struct Computed {
    double at;
    int32_t worker;
    bool operator>(const Computed& other) const {
      return at != other.at ? at > other.at : worker > other.worker;
    }
  };

  double next_time() const;
  void pass_to_next();
  void pull(int32_t worker);
  void push(int32_t worker);
  // The gradients of the worker's step, and their updates of its copies, if it has some.
  std::vector<Tensor> compute(int32_t worker);
  void step_alone(int32_t worker);
  void take_answers();
  void take(int32_t worker, Pulled& answer);
  void take(int32_t worker, Acknowledged& answer);
  void go_on(int32_t worker);

  const WorkerSettings settings_;
  const Compute compute_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<Shard*> shard_of_;  // by slice
  std::vector<Worker> workers_;
  std::priority_queue<Computed, std::vector<Computed>, std::greater<>> computing_;
  SharedLink link_;
  ShardActions answers_;
  double now_ = 0;
  int64_t newest_step_ = 0, messages_ = 0;
  std::vector<double> updates_, steps_;
};

}  // namespace troupe::bench
