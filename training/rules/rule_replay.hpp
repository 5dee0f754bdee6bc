// A rule that repeats the updates of another run in their recorded order; see rule.hpp and
// order.hpp. It holds each pull and each push until its turn: a pull that read the values of a
// version is answered before the update after it is made. As the order is one that happened, no
// request waits for ever.
// Owner: the caller owns the rule. Thread: any.
#pragma once

#include <memory>
#include <string>

#include "training/rules/order.hpp"
#include "training/rules/rule.hpp"

namespace troupe {

// `rule` itself if its order decides nothing. `events`: of all steps; the ones from `rule`'s
// next_step() on are repeated. `name`: of the slice. A request that is not among the events is
// refused, with Errc::bad_configuration and a text that names slice, replica and step.
std::unique_ptr<AggregationRule> replayed(std::unique_ptr<AggregationRule> rule, std::string name,
                                          std::shared_ptr<const std::string> events);

}  // namespace troupe
