// SegmentMax: y[s] = the element-wise maximum of the rows of x whose id is s; NaN if one is NaN;
// for no rows the lowest number, -infinity for floats. ops/reductions/segments.hpp describes x, ids
// and y.
#include "ops/reductions/segments.hpp"

namespace troupe {

Op segment_max_op() {
  return segment_op("SegmentMax", share_gradient, Precision::same,
                    run_segments<greatest_reduction>);
}

Output segment_max(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMax", x, ids, segments, /*sorted=*/true, at);
}

Output unsorted_segment_max(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMax", x, ids, segments, /*sorted=*/false, at);
}

}  // namespace troupe
