// The rule of bounded staleness; see rule.hpp.
// Owner: the caller owns the rule. Thread: any.
#pragma once

#include "training/rules/rule.hpp"

namespace troupe {

std::unique_ptr<AggregationRule> make_ssp_rule(const Aggregation& rule,
                                               const std::vector<ReplicaProgress>& progress);

}  // namespace troupe
