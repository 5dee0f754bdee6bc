// The values that a slice begins with, first or restored ones, and room for the rows of a table.
// Owner: none, plain functions. Thread: that of Shard's caller.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "training/parameters/layout.hpp"
#include "training/parameters/messages.hpp"
#include "training/parameters/outcome.hpp"
#include "training/parameters/shard_image.hpp"
#include "training/rules/update.hpp"

namespace troupe {

// Accumulators of zeros of the optimizer that makes the updates: the slice's, or that of the rule
// over rounds of local steps. None for a table, whose rows have them.
std::vector<std::pair<std::string, Tensor>> fresh_accumulators(const Aggregation& rule,
                                                               const Slice& slice);
Tensor flat(Tensor values);

// Requires: check_values() passed.
SliceValues first_values(const Slice& slice, const Aggregation& rule, const ShardMemory& memory,
                         Tensor values);
// Puts the values of the state, whose tensors it takes, into `out`, or says why they do not fit.
// Accumulators that it does not have begin anew.
Outcome restored_values(const Slice& slice, const Aggregation& rule, const ShardMemory& memory,
                        SliceState& state, SliceValues& out);

// The rows of a table that the pull names, of the newest version or of the one before; undefined if
// the slice does not have them.
Tensor table_rows(const Slice& slice, const Pull& pull, const SliceValues& values, bool before);
// Finds room for the rows that a gradient makes in a table, or says that there is none; ok for
// other slices, and without a gradient.
Outcome reserve_rows(SliceValues& values, const Gradient& gradient);

}  // namespace troupe
