// The synchronous rule with backup replicas; see rule.hpp.
// Owner: the caller owns the rule. Thread: any.
#pragma once

#include "training/rules/rule.hpp"

namespace troupe {

// Requires: fewer backups than replicas.
std::unique_ptr<AggregationRule> make_backup_rule(const Aggregation& rule,
                                                  const std::vector<ReplicaProgress>& progress);

}  // namespace troupe
