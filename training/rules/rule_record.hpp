// A rule that records the order in which another one makes updates; see rule.hpp and order.hpp.
// Owner: the caller owns the rule. Thread: any.
#pragma once

#include <memory>
#include <string>

#include "training/rules/order_buffer.hpp"
#include "training/rules/rule.hpp"

namespace troupe {

// True if the order of arrival decides the updates of one slice: under sync and local it does not.
bool order_decides(const Aggregation& rule);

// `rule` itself if its order decides nothing. `name`: of the slice, for messages.
std::unique_ptr<AggregationRule> recorded(std::unique_ptr<AggregationRule> rule, uint32_t slice,
                                          std::string name, std::shared_ptr<OrderBuffer> to);

}  // namespace troupe
