// Training over epochs of a data set: evaluation with metrics, callbacks, early stopping, and the
// best model kept. On top of train() of troupe/trainer.hpp, which recovers from lost processes.
// Implemented in training/loop/fit.cpp and fit_history.cpp.
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

// What a model is fed for records it does not train on, and what is measured of its answers.
struct Evaluation {
  std::vector<Output> feeds;  // of features, and of labels if there is a second one
  std::vector<Output> fetches;
  std::vector<Metric> metrics;  // of what is fetched; names differ
  int64_t batch_size = 256;     // records at a time, which bounds memory
};
using Scores = std::map<std::string, double>;  // by the metric's name

// Of all records once, in their order. Throws: Error(invalid_argument) for an evaluation that
// cannot be, and what a run of the session or a metric throws.
Scores evaluate(Session& session, const Evaluation& evaluation, const Dataset& data,
                const RunOptions& run = {});

// What one epoch ended with.
struct FitEpoch {
  int64_t epoch = 0;     // how many are done, this one included
  int64_t step = 0;      // of each tower, the same
  double loss = 0;       // mean over the epoch's steps, as far as this program has done them
  Scores scores = {};    // of the validation data
  bool is_best = false;  // so far, by FitOptions::watch
};

struct FitOptions {
  int64_t epochs = 1;
  int64_t batch_size = 32;  // records of a tower in a step
  bool shuffle = true;
  uint64_t seed = 0;  // of the order of records
  // Steps of an epoch. 0: as many as the data has batches, the last one counting if it is not full;
  // all are full, as Batches::at() makes them. Wanted if towers have batches of their own.
  int64_t steps_per_epoch = 0;

  Dataset validation = {};  // evaluated when an epoch ends, if there is any
  Evaluation evaluation = {};
  // Name of the metric that says what is best; empty: the first one.
  std::string watch = {};
  double min_improvement = 0;  // of that metric; less is none
  // Training ends when so many epochs in a row have brought no improvement; 0: never.
  int64_t stop_after = 0;
  // A whole checkpoint of the best epoch in the folder best in checkpoint_dir, for
  // load_parameters(); and the session's parameters are those in the end.
  bool keep_best = false, return_best = false;

  // Called from the thread that called fit(). After a loss of parameters steps and epochs are done
  // again, and so are these calls. on_epoch may run the session, and ends training by false.
  std::function<void(const TrainProgress&)> on_step = {};
  std::function<bool(const FitEpoch&)> on_epoch = {};

  // The rest: rule, checkpoints (if checkpoint_every is 0, one for each epoch), resume, patience,
  // on_event. Steps, examples_per_step, data_seed, pauses and on_progress are fit()'s own.
  TrainOptions train = {};
};

struct FitResult {
  TrainResult training;
  // Of all epochs; with checkpoints, those before a resume included, which are in the file
  // epochs.txt in checkpoint_dir.
  std::vector<FitEpoch> history;
  // 0: there is none. Epochs that are done again after a loss of parameters are the same again
  // under the synchronous rule only; under the asynchronous one the best score that any epoch has
  // had decides, and its values are those that are kept, also if the epoch has another score since.
  int64_t best_epoch = 0;
  std::string best_checkpoint;  // folder; empty: not kept
  bool stopped = false;         // before all epochs were done, by stop_after or on_epoch
};

// Trains `towers` for options.epochs epochs of `data`. Their replicas are 0, 1, ... in order; where
// Tower::batch is empty, `feeds` are features, and labels if there is a second one, of this tower's
// part of each batch of the data. Towers stand still when an epoch ends, so under both rules scores
// are those of the epoch's parameters; with killed processes synchronous training ends with the
// same bits, scores and epochs as without. Throws: Error(invalid_argument) for options that do not
// fit together; Error(bad_data) for an epochs.txt that is damaged; and as train().
FitResult fit(Session& session, std::vector<Tower> towers, const Dataset& data,
              const FitOptions& options);

}  // namespace troupe
