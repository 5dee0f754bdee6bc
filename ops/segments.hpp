// What reductions over segments share: rows of x with the same id are joined.
//   x: [i..., rest...]   ids: [i...], i32 or i64, each in [0, segments)   y: [segments, rest...]
// Attributes: `segments`, -1 for the greatest id plus 1, so that the shape of y depends on values;
// `sorted`: ids is one row that does not fall. Rows that are not in order are first put in order,
// those of a segment as they stood; each segment is then reduced by the fixed tree of
// ops/reduce.hpp.
#pragma once

#include "ops/indices.hpp"
#include "ops/reduce.hpp"

namespace troupe {

// x, its rows in the order of their segments. Segment s is rows [starts[s], starts[s + 1]).
struct SegmentRows {
  int64_t segments = 0, width = 0;
  Tensor starts, order;  // i64; order: the rows' old numbers, undefined if nothing moves
  Shape y;
};
// Throws: Error from ctx for shapes that do not fit, and ids that are out of range or fall.
SegmentRows segment_rows(KernelContext& ctx);

std::vector<DType> infer_segment_dtypes(const InferContext& ctx);
std::vector<Shape> infer_segments(const InferContext& ctx);

// R: joins two rows; R::nothing<T>() is what a segment without rows is.
template <class R, class T>
void run_segments(KernelContext& ctx) {
  const SegmentRows rows = segment_rows(ctx);
  const T* x = ctx.input(0).data<T>();
  T* y = ctx.output(0, rows.y).template mutable_data<T>();
  if (rows.segments == 0 || rows.width == 0) return;
  const int64_t* starts = rows.starts.data<int64_t>();
  Tensor copy;
  if (rows.order.defined()) {
    copy = ctx.scratch(dtype_of<T>, Shape{rows.order.size(), rows.width});
    T* to = copy.mutable_data<T>();
    for (const int64_t row : rows.order.values<int64_t>())
      to = std::copy_n(x + row * rows.width, rows.width, to);
    x = copy.data<T>();
  }
  for (int64_t s = 0; s < rows.segments; ++s, y += rows.width) {
    const int64_t count = starts[s + 1] - starts[s];
    if (count == 0)
      std::fill_n(y, rows.width, R::template nothing<T>());
    else
      reduce_elements<R>(
          ctx, {.outer = 1, .reduced = count, .inner = rows.width, .x = x + starts[s] * rows.width},
          y);
  }
}

template <class R, class... Ts>
Op segment_op(std::string name, std::vector<Output> (*gradient)(const GradientContext&),
              Precision precision) {
  return {
      .name = std::move(name),
      .inputs = {"x", "ids"},
      .outputs = {"y"},
      .attrs = {{"segments", AttrKind::integer, int64_t{-1}}, {"sorted", AttrKind::boolean, true}},
      .infer_dtypes = infer_segment_dtypes,
      .infer_shapes = infer_segments,
      .gradient = gradient,
      .kernels = {{DeviceKind::cpu, dtype_of<Ts>, run_segments<R, Ts>}...},
      .value_shapes = true,
      .precision = precision};
}

Output add_segment_op(std::string_view op, Output x, Output ids, int64_t segments, bool sorted,
                      Origin at = Origin::here());
// The sums of `x` over the segments of the node that is differentiated.
Output sums_like(const GradientContext& ctx, Output x);
// The gradient of the greatest and the least: the elements that were chosen share dy equally. NaN
// is chosen where there is one, though it equals nothing.
std::vector<Output> share_gradient(const GradientContext& ctx);

}  // namespace troupe
