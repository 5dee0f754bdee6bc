// Deadlines from timeouts of any length, up to "for ever", without overflow.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <chrono>

#include "troupe/session.hpp"

namespace troupe {

// now + timeout, or the end of time if the sum would be past it.
template <class Time>
Time deadline_after(Time now, std::chrono::milliseconds timeout) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(Time::max() - now);
  return timeout < left ? now + timeout : Time::max();
}
inline std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds timeout) {
  return deadline_after(std::chrono::steady_clock::now(), timeout);
}

// Steps lie below it, so that sums of a step and small numbers do not overflow.
inline constexpr int64_t kStepsMax = int64_t{1} << 62;

// Throws: Error(invalid_argument) for a timeout that is not above 0, or a step below -1 or too
// large.
inline void check_options(const RunOptions& options) {
  if (options.timeout.count() <= 0)
    throw Error(Errc::invalid_argument, "RunOptions::timeout is ", options.timeout.count(),
                " ms; give a time above 0, or leave it out");
  if (options.step < -1)
    throw Error(Errc::invalid_argument, "RunOptions::step is ", options.step,
                "; give a step from 0, or -1: then the session counts");
  if (options.step >= kStepsMax)
    throw Error(Errc::invalid_argument, "RunOptions::step is ", options.step,
                "; give a step below 2^62, or -1: then the session counts");
}

}  // namespace troupe
