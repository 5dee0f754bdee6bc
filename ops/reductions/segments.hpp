// Shared by reductions over segments: rows of x with the same id are joined.
//   x: [i..., rest...]   ids: [i...], i32 or i64, each in [0, segments)   y: [segments, rest...]
// Attributes: `segments`, or -1 for the greatest id plus 1, so that the shape of y depends on
// values; `sorted`: ids has one dimension and does not decrease. Rows out of order are first sorted
// by id, with a stable sort; each segment is then reduced by the fixed tree of
// ops/reductions/reduce.hpp.
#pragma once

#include "ops/reductions/reduce.hpp"

namespace troupe {

// The kernel of an op over segments; a segment without rows gets the reduction's result for no
// elements. Throws: Error from ctx for shapes that do not fit, and for ids that are out of range or
// decrease.
void reduce_segments(KernelContext& ctx, const Reduction& reduction);

template <const Reduction& (*kOf)(DType)>
void run_segments(KernelContext& ctx) {
  reduce_segments(ctx, kOf(ctx.input(0).dtype()));
}

// An op for f32, f64, i32 and i64. run: a run_segments().
Op segment_op(std::string name, std::vector<Output> (*gradient)(const GradientContext&),
              Precision precision, void (*run)(KernelContext&));
Output add_segment_op(std::string_view op, Output x, Output ids, int64_t segments, bool sorted,
                      Origin at = Origin::here());
// The sums of `x` over the segments of the node being differentiated.
Output sums_like(const GradientContext& ctx, Output x);
// The gradient of the greatest and the least: the chosen elements share dy equally. If a segment
// has NaN, the NaN elements are the chosen ones, though NaN equals nothing.
std::vector<Output> share_gradient(const GradientContext& ctx);

}  // namespace troupe
