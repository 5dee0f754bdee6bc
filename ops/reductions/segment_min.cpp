// SegmentMin: y[s] = the least, element by element, of the rows of x whose id is s; NaN if there is
// one; the greatest number, infinity for floats, where there is no row. ops/reductions/segments.hpp
// says what x, ids and y are.
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
