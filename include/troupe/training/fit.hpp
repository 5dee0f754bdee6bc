// Training over epochs of a data set: evaluation with metrics, callbacks, early stopping, and
// keeping the best model. Built on train() of troupe/trainer.hpp, which recovers from lost
// processes. Implemented in training/loop/fit.cpp and fit_history.cpp.
//
//   FitOptions options;
//   options.epochs = 20;
//   options.validation = held_out;
//   options.evaluation = {.feeds = {images, labels},
//                         .fetches = {argmax(logits), loss},
//                         .metrics = {accuracy(0), mean_loss(1)}};
//   options.stop_after = 3;
//   FitResult result = fit(session, {{.loss = loss, .update = update, .feeds = {x, y}}}, data,
//                          options);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "troupe/trainer.hpp"
#include "troupe/training/metrics.hpp"

namespace troupe {

// The feeds for records that the model does not train on, and the metrics of its answers.
struct Evaluation {
  std::vector<Output> feeds;  // features, and labels if there is a second one
  std::vector<Output> fetches;
  std::vector<Metric> metrics;  // of the fetched values; names differ
  int64_t batch_size = 256;     // records at a time, which bounds memory
};
using Scores = std::map<std::string, double>;  // by the metric's name

// Covers all records once, in their order. Throws: Error(invalid_argument) for an evaluation whose
// fields do not fit, and the errors of a run of the session and of a metric.
Scores evaluate(Session& session, const Evaluation& evaluation, const Dataset& data,
                const RunOptions& run = {});

// The state at the end of a data epoch.
struct FitEpoch {
  int64_t epoch = 0;     // epochs done, this one included
  int64_t step = 0;      // of each replica, the same
  double loss = 0;       // mean over the epoch's steps, as far as this program has run them
  Scores scores = {};    // of the validation data
  bool is_best = false;  // best so far, by FitOptions::watch
};

struct FitOptions {
  int64_t epochs = 1;
  int64_t batch_size = 32;  // records of a replica in a step
  bool shuffle = true;
  uint64_t seed = 0;  // for the order of records
  // Steps of an epoch. 0: the number of batches in the data, a partial one included; all batches
  // are full, as Batches::at() makes them. Set it if replicas have batches of their own.
  int64_t steps_per_epoch = 0;

  Dataset validation = {};  // evaluated when an epoch ends, if there is any
  Evaluation evaluation = {};
  // Name of the metric that decides which epoch is best; empty: the first one.
  std::string watch = {};
  double min_improvement = 0;  // a smaller change of that metric is no improvement
  // Training ends after this many epochs in a row without improvement; 0: never.
  int64_t stop_after = 0;
  // keep_best: a whole checkpoint of the best epoch in the folder best in checkpoint_dir, for
  // load_parameters(). return_best: the session's parameters are those of the best epoch in the
  // end.
  bool keep_best = false, return_best = false;

  // Called from the thread that called fit(). After a loss of parameters steps and epochs are
  // repeated, and so are these calls. on_epoch may run the session; returning false ends training.
  std::function<void(const TrainProgress&)> on_step = {};
  std::function<bool(const FitEpoch&)> on_epoch = {};

  // The other options: rule, checkpoints (if checkpoint_every is 0, one for each epoch), resume,
  // patience, on_event. fit() sets steps, examples_per_step, data_seed, pauses and on_progress
  // itself.
  TrainOptions train = {};
};

struct FitResult {
  TrainResult training;
  // All epochs; with checkpoints, including those before a resume, which are in the file epochs.txt
  // in checkpoint_dir.
  std::vector<FitEpoch> history;
  // 0: there is none. Epochs that are repeated after a loss of parameters are the same again under
  // the synchronous rule only. Under the asynchronous rule the best score that any epoch ever had
  // decides, and the values of that epoch are kept, even if the repeated epoch has another score.
  int64_t best_epoch = 0;
  std::string best_checkpoint;  // folder; empty: not kept
  bool stopped = false;         // before all epochs were done, by stop_after or on_epoch
};

// Trains `towers` for options.epochs epochs of `data`. Their replicas are 0, 1, ... in order. If
// Tower::batch is empty, `feeds` are features, and labels if there is a second one, of this
// replica's part of each batch of the data. Replicas stand still when an epoch ends, so under both
// rules scores are those of the epoch's parameters; synchronous training with killed processes ends
// with the same bits, scores and epochs as without. Throws: Error(invalid_argument) for options
// that do not fit together; Error(bad_data) for an epochs.txt that is damaged; and as train().
FitResult fit(Session& session, std::vector<Tower> towers, const Dataset& data,
              const FitOptions& options);

}  // namespace troupe
