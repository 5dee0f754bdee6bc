// SegmentSum: y[s] = the sum of the rows of x whose id is s; zeros for no rows.
// ops/reductions/segments.hpp describes x, ids and y.
#include "ops/reductions/segments.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = for each row, dy of its segment.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {gather(ctx.output_gradient(0), ctx.input(1)), Output{}};
}

}  // namespace

Op segment_sum_op() {
  return segment_op("SegmentSum", gradient, Precision::wide, run_segments<sum_reduction>);
}

Output segment_sum(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentSum", x, ids, segments, /*sorted=*/true, at);
}

Output unsorted_segment_sum(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentSum", x, ids, segments, /*sorted=*/false, at);
}

}  // namespace troupe
