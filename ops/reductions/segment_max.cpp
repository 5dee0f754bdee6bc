// SegmentMax: y[s] = the greatest, element by element, of the rows of x whose id is s; NaN if there
// is one; the lowest number, -infinity for floats, where there is no row.
// ops/reductions/segments.hpp says what x, ids and y are.
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
