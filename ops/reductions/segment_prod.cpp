// SegmentProd: y[s] = the element-wise product of the rows of x whose id is s; ones for no rows.
// ops/reductions/segments.hpp describes x, ids and y.
#include "ops/reductions/segments.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy times the product of the other rows of the segment: y / x for a
// non-zero x, the product of the rest for a single zero, and 0 beside another zero. Second
// derivatives are right if a segment has at most one zero in a position; with two, the derivative
// by both of them is lost.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), ids = ctx.input(1), dy = ctx.output_gradient(0);
  const Output one = constant_like(1, x), zero = constant_like(0, x);
  const Output is_zero = equal(x, zero), not_zero = where(is_zero, one, x);
  const Output rest = add_segment_op("SegmentProd", not_zero, ids, ctx.attr<int64_t>("segments"),
                                     ctx.attr<bool>("sorted"));
  const Output zeros = gather(sums_like(ctx, cast(is_zero, x.dtype())), ids);
  const Output beside_zero = where(greater(zeros, one), zero, gather(rest, ids));
  const Output others = where(is_zero, beside_zero, divide(gather(ctx.output(0), ids), not_zero));
  return {multiply(gather(dy, ids), others), Output{}};
}

}  // namespace

Op segment_prod_op() {
  return segment_op("SegmentProd", gradient, Precision::wide, run_segments<product_reduction>);
}

Output segment_prod(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentProd", x, ids, segments, /*sorted=*/true, at);
}

Output unsorted_segment_prod(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentProd", x, ids, segments, /*sorted=*/false, at);
}

}  // namespace troupe
