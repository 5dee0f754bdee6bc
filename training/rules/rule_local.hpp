// The aggregation rule of local steps; see rule.hpp.
// Owner: the caller owns the rule. Thread: any.
#pragma once

#include "training/rules/rule.hpp"

namespace troupe {

// Rounds end at the multiples of `steps`: the first step of the round after that of `step`. A
// training that begins, or gets the rule, within a round has a shorter one first.
inline int64_t round_end(int64_t step, int64_t steps) { return (step / steps + 1) * steps; }

// Applies the mean change of the replicas to the values that they began the round with. Requires:
// rule.local().
Optimizer outer_optimizer(const Aggregation& rule);
// The name of its accumulator, which no inner optimizer has; checkpoints hold it.
inline constexpr const char* kOuterMomentum = "outer_momentum";

// Requires: all next_step agree.
std::unique_ptr<AggregationRule> make_local_rule(const Aggregation& rule,
                                                 const std::vector<ReplicaProgress>& progress);

}  // namespace troupe
