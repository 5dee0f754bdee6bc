// Functions along an axis of one's choice, made of ops that go along the first or the last one.
// Everything that troupe/ops.hpp says of its functions holds for these; axes that are negative
// count from the end. Implemented in ops/indexing/along_axis.cpp.
#pragma once

#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// e^x / the sum of e^x over the axis, of floats; and its logarithm, which is finite wherever x is.
Output softmax(Output x, int64_t axis, Origin at = Origin::here());
Output log_softmax(Output x, int64_t axis = -1, Origin at = Origin::here());
// The slices of x along the axis by indices [i...], i32 or i64 in [0, size of the axis) ->
// [sizes before the axis..., i..., sizes after it...]. Along axis 0 its gradient goes by rows.
Output gather(Output x, Output indices, int64_t axis, Origin at = Origin::here());
// Parts of these sizes, one behind the other along the axis; one size may be -1: what the others
// leave. They must fill it.
std::vector<Output> split_sizes(Output x, std::vector<int64_t> sizes, int64_t axis,
                                Origin at = Origin::here());

}  // namespace troupe
