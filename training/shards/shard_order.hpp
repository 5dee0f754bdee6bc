// ShardOrder: the order of a shard's updates, where it is recorded, or repeated from a record.
// Owner: Shard. Thread: that of Shard's caller.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "training/parameters/layout.hpp"
#include "training/rules/order_buffer.hpp"
#include "training/rules/rule.hpp"

namespace troupe {

struct ShardOrder {
  std::shared_ptr<OrderBuffer> record;  // null: nothing is recorded
  // By slice; empty: nothing is repeated.
  std::map<uint32_t, std::shared_ptr<const std::string>> replay = {};

  // The rule of the slice, which records its order or repeats one.
  std::unique_ptr<AggregationRule> of(const Slice& slice,
                                      std::unique_ptr<AggregationRule> rule) const;
};

}  // namespace troupe
