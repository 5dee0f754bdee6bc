// next_step(): the step that a StepReader makes next. A plain function of its state, so that tests
// need no threads.
#pragma once

#include <cstdint>
#include <optional>

namespace troupe {

// The state of a StepReader, as far as its next step depends on it.
struct StepsAsked {
  std::optional<int64_t> at;       // the step that its cursor gives next; none: nothing was read
  int64_t newest = 0;              // the newest step that was asked for since the last jump
  std::optional<int64_t> missing;  // the first one that a read waits for and no thread makes
  std::optional<int64_t> end;      // the first step past the data, once it is known
  int64_t depth = 0;               // steps that are made ahead
};

struct NextStep {
  int64_t step;
  bool jumps;  // to it, past other steps or back: steps that were made ahead are dropped
  friend bool operator==(const NextStep&, const NextStep&) = default;
};

// None: there is nothing to do until a read comes. A step that is missing comes first; if it is not
// far ahead, by way of the steps before it, as they may be asked for, too.
inline std::optional<NextStep> next_step(const StepsAsked& s) {
  if (s.missing) {
    const bool soon = s.at && *s.at <= *s.missing && *s.missing <= *s.at + s.depth;
    return NextStep{soon ? *s.at : *s.missing, !soon};
  }
  if (!s.at || *s.at > s.newest + s.depth || (s.end && *s.at >= *s.end)) return std::nullopt;
  return NextStep{*s.at, false};
}

}  // namespace troupe
