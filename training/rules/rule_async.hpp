// The asynchronous aggregation rule; see rule.hpp.
// Owner: the caller owns the rule. Thread: any.
#pragma once

#include "training/rules/rule.hpp"

namespace troupe {

std::unique_ptr<AggregationRule> make_async_rule(const Aggregation& rule,
                                                 const std::vector<ReplicaProgress>& progress);

}  // namespace troupe
