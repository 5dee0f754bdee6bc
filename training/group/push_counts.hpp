// Converts the counts of pushes that a shard sends to those that a program sees.
// Owner: none, a plain function. Thread: any.
#pragma once

#include <vector>

#include "training/group/shard_table.hpp"
#include "training/parameters/messages.hpp"

namespace troupe {

// Adds a PushCount for each row. Rows of a member that does not keep to the message's form, or has
// other slices than the entry, are left out.
void add_counts(const PushesCounted& counted, const ShardTable::Entry& shard,
                std::vector<PushCount>& out);

}  // namespace troupe
