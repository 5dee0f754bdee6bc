// The synchronous aggregation rule; see rule.hpp.
// Owner: the caller owns the rule. Thread: any.
#pragma once

#include "training/rules/rule.hpp"

namespace troupe {

// Requires: all next_step agree.
std::unique_ptr<AggregationRule> make_sync_rule(const std::vector<ReplicaProgress>& progress);

}  // namespace troupe
