// StepTimes: the time that a worker computes in one step: log-normal, and in some steps an
// exponential delay on top. A worker's step has the same time under all rules and beside any number
// of others, so two runs of one seed differ by the rule alone.
// Owner: a value. Thread: any.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "data/random.hpp"

namespace troupe::bench {

inline double uniform_of(SplitMix& random) {  // in (0, 1)
  return (static_cast<double>(random.next() >> 11) + 0.5) * 0x1p-53;
}
inline double normal_of(SplitMix& random) {  // by Box and Muller
  const double radius = std::sqrt(-2 * std::log(uniform_of(random)));
  return radius * std::cos(2 * std::numbers::pi * uniform_of(random));
}

struct StepTimes {
  double median = 1;      // seconds, of the steps without a delay
  double spread = 0;      // the standard deviation of their logarithm
  double slow_share = 0;  // of the steps with a delay
  double slow_mean = 0;   // of the delays, in medians

  // Seconds of the worker's step number `step`.
  double at(uint64_t seed, int32_t worker, int64_t step) const {
    SplitMix random{mixed_key(seed, worker, step)};
    const double even = std::exp(spread * normal_of(random));
    const bool slow = uniform_of(random) < slow_share;
    return median * (even - (slow ? slow_mean * std::log(uniform_of(random)) : 0));
  }
};

}  // namespace troupe::bench
