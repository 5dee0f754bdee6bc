// Puts rules that record or repeat an order around those of slices.
#include "training/shards/shard_order.hpp"

#include "training/rules/rule_record.hpp"
#include "training/rules/rule_replay.hpp"

namespace troupe {

std::unique_ptr<AggregationRule> ShardOrder::of(const Slice& slice,
                                                std::unique_ptr<AggregationRule> rule) const {
  if (const auto events = replay.find(slice.id); events != replay.end())
    rule = replayed(std::move(rule), describe(slice), events->second);
  if (record) rule = recorded(std::move(rule), slice.id, describe(slice), record);
  return rule;
}

}  // namespace troupe
