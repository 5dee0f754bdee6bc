// Time to accuracy: the digits that ship, learned by workers in virtual time under each rule.
// Owner: none, functions of values. Thread: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/rules/step_times.hpp"
#include "troupe/data.hpp"
#include "troupe/training.hpp"

namespace troupe::bench {

constexpr int32_t kLearners = 20;  // workers
constexpr double kAccuracy = 90;   // percent of the test images, to be reached

struct Learning {
  double learning_rate = 0;
  std::vector<std::pair<double, double>> accuracy;  // virtual seconds, percent of the test images
  double reached = -1;                              // when it was kAccuracy; -1: never
  int64_t updates = 0;                              // by the end
  double staleness = 0;                             // mean of all updates
};

// Trains a network of one hidden layer for so many virtual seconds, with each of several learning
// rates; returns the one that reaches kAccuracy first, or comes closest.
Learning learn_digits(const Dataset& digits, const Aggregation& rule, const StepTimes& times,
                      double seconds);

}  // namespace troupe::bench
