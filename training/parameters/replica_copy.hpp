// ReplicaCopy: a replica's own values of one parameter in a round of local steps, and the
// optimizer's accumulators beside them, which begin as zeros. Plain state. Owner: ReplicaCopies, or
// a test. Thread: any, one at a time.
#pragma once

#include <cstdint>

#include "training/parameters/outcome.hpp"
#include "training/rules/update.hpp"

namespace troupe {

class ReplicaCopy {
 public:
  struct Round {
    int64_t first = 0, end = 0;  // the steps first .. end - 1
    int64_t version = 0;         // of the values that it begins with
    friend bool operator==(const Round&, const Round&) = default;
  };
  // `values`: of the whole parameter, any shape. `optimizer`: at the rate scale of the round.
  ReplicaCopy(const Round& round, const Tensor& values, Optimizer optimizer);

  const Round& round() const { return round_; }
  int64_t next_step() const { return next_; }  // the first one without an update

  // The values that a step may read, [n]: those after the steps of the round before it. A step
  // whose update is here may be done again. Undefined: they are gone, or not made yet.
  Tensor values(int64_t step);
  // Makes the update of step next_step(). `gradient`: all elements, or checked rows.
  void update(const Gradient& gradient);
  // The values at the beginning of the round less the present ones, [n].
  Tensor change() const;

 private:
  const Round round_;
  const Optimizer optimizer_;
  const Tensor begin_;
  int64_t next_;
  SliceValues state_;
};

}  // namespace troupe
