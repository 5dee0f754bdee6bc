// Functions along an axis of choice, made of ops that work along the first or the last one. The
// conventions of troupe/ops.hpp hold for these functions; negative axes count from the end.
// Implemented in ops/indexing/along_axis.cpp.
#pragma once

#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// e^x / the sum of e^x over the axis, for floats; and its logarithm, which is finite wherever x is.
Output softmax(Output x, int64_t axis, Origin at = Origin::here());
Output log_softmax(Output x, int64_t axis = -1, Origin at = Origin::here());
// The slices of x along the axis by indices [i...], i32 or i64 in [0, size of the axis) -> [sizes
// before the axis..., i..., sizes after it...]. Along axis 0 its gradient is by rows.
Output gather(Output x, Output indices, int64_t axis, Origin at = Origin::here());
// Parts of these sizes, one after the other along the axis; one size may be -1: the rest. The sizes
// must add up to that of the axis.
std::vector<Output> split_sizes(Output x, std::vector<int64_t> sizes, int64_t axis,
                                Origin at = Origin::here());

}  // namespace troupe
