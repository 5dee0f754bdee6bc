// SegmentMin: y[s] = the element-wise minimum of the rows of x whose id is s; NaN if one is NaN;
// for no rows the greatest number, infinity for floats. ops/reductions/segments.hpp describes x,
// ids and y.
#include "ops/reductions/segments.hpp"

namespace troupe {

Op segment_min_op() {
  return segment_op("SegmentMin", share_gradient, Precision::same, run_segments<least_reduction>);
}

Output segment_min(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMin", x, ids, segments, /*sorted=*/true, at);
}

Output unsorted_segment_min(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMin", x, ids, segments, /*sorted=*/false, at);
}

}  // namespace troupe
