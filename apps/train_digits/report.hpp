// The output of train_digits: accuracies, tables, and a trace.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/train_digits/network.hpp"

struct Outcome {
  troupe::TrainResult result;
  std::optional<double> validation;  // accuracies, percent
  double test = 0;
  std::string trace;  // of a training step
};

using Outcomes = std::vector<std::pair<troupe::Aggregation, Outcome>>;

// A table of them, and where their checkpoints are.
void print_results(const Outcomes& results);

// Percent of the images that get their label.
double accuracy_percent(troupe::Session& session, const Network& net,
                        const troupe::Dataset& images);

// The same now and then while a training runs, of the parameters as they are then: asked for
// without waiting. A question that meets a dying process has no answer.
class RunningAccuracy {
 public:
  RunningAccuracy(troupe::Session& session, const Network& net, const troupe::Dataset& images);
  void ask();                 // nothing while another one is under way
  std::string shown() const;  // the newest answer, for a progress line; empty: there is none yet

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

// A Chrome trace of one training step of every tower, from step `at` on: a step is whole when its
// successor is done.
class StepTrace {
 public:
  StepTrace(troupe::Session& session, int64_t at) : session_(session), at_(at) {}
  void look(const troupe::TrainProgress& progress);
  std::string end();  // after the training: the trace

 private:
  troupe::Session& session_;
  const int64_t at_;
  int64_t begun_ = -1;  // at this step; -1: not yet
  std::string trace_;
};

// Which nodes ran where, which parameter slice lived where, and what crossed between devices.
// `whole` has the nodes of all towers, `steps` are the steps that trained, one per tower.
void print_tables(troupe::Session& session, const troupe::Callable& whole,
                  const std::vector<troupe::Callable>& steps);
