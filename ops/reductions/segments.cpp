// Reductions over segments: rows of x with the same id are joined.
//   x: [i..., rest...]   ids: [i...], i32 or i64, each in [0, segments)   y: [segments, rest...]
// Attributes: `segments`, or -1 for the greatest id plus 1, so that the shape of y depends on
// values; `sorted`: ids has one dimension and does not decrease. Rows are first sorted by id, in a
// stable way; each segment is then reduced by the fixed tree of ops/reductions/reduce.hpp. A
// segment without rows gets the reduction's result for no elements.
#include <numeric>

#include "ops/reductions/reduce.hpp"
#include "ops/support/indices.hpp"
#include "ops/support/rows.hpp"

namespace troupe {
namespace {

// x with its rows in the order of their segments. Segment s is rows [starts[s], starts[s + 1]).
struct SegmentRows {
  int64_t segments = 0, width = 0;
  Tensor starts, order;  // i64; order: the rows' original numbers, undefined if nothing moves
  Shape y;
};

template <class Context>
void check_segments(const Context& ctx, const Shape& x, const Shape& ids) {
  const bool sorted = ctx.template attr<bool>("sorted");
  if (sorted ? ids.ndim() != 1 : ids.ndim() < 1)
    throw ctx.error("wants ids ", sorted ? "[n], one for each row" : "of one dimension or more",
                    ", got ", ids);
  if (!begins_with(x, ids))
    throw ctx.error("wants an id for each row: the sizes of ids ", ids, " are not the first of ",
                    x);
}

Shape segment_shape(const Shape& x, const Shape& ids, int64_t segments) {
  return shape_with_rows(segments, sizes_from(x, ids.ndim()));
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const int64_t segments = ctx.attr<int64_t>("segments");
  if (segments < -1)
    throw ctx.error(
        "wants a number of segments of at least 0, or -1 for as many as there are, got ", segments);
  check_segments(ctx, ctx.input(0), ctx.input(1));
  return {segment_shape(ctx.input(0), ctx.input(1), segments)};
}

template <class I>
bool is_rising(const I* ids, int64_t count) {
  return std::is_sorted(ids, ids + count);
}

template <class I>
void check_rising(const KernelContext& ctx, const I* ids, int64_t count) {
  for (int64_t i = 1; i < count; ++i)
    if (ids[i] < ids[i - 1])
      throw ctx.error("id ", ids[i], " (number ", i, " of ", count, ") comes after ", ids[i - 1],
                      "; sort the rows by id, or reduce unsorted segments");
}

// A stable counting sort: counts, then positions.
template <class I>
void order_rows(KernelContext& ctx, const I* ids, int64_t count, SegmentRows& rows) {
  rows.starts = ctx.scratch(DType::i64, Shape{rows.segments + 1});
  int64_t* starts = rows.starts.mutable_data<int64_t>();
  std::fill_n(starts, rows.segments + 1, int64_t{0});
  for (int64_t i = 0; i < count; ++i) ++starts[ids[i] + 1];
  std::partial_sum(starts, starts + rows.segments + 1, starts);
  if (is_rising(ids, count)) return;
  rows.order = ctx.scratch(DType::i64, Shape{count});
  int64_t* order = rows.order.mutable_data<int64_t>();
  std::vector<int64_t> next(starts, starts + rows.segments);
  for (int64_t i = 0; i < count; ++i) order[next[static_cast<size_t>(ids[i])]++] = i;
}

SegmentRows segment_rows(KernelContext& ctx) {
  const Shape x = ctx.input(0).shape(), id_shape = ctx.input(1).shape();
  check_segments(ctx, x, id_shape);
  const int64_t count = id_shape.size();
  SegmentRows rows;
  rows.segments = ctx.attr<int64_t>("segments");
  rows.width = size_between(x, id_shape.ndim(), x.ndim());
  with_indices(ctx.input(1), [&](const auto* ids) {
    if (rows.segments < 0) {
      const int64_t most = count > 0 ? int64_t{*std::max_element(ids, ids + count)} : -1;
      rows.segments = std::clamp<int64_t>(most, -1, std::numeric_limits<int64_t>::max() - 1) + 1;
    }
    check_indices(ctx, ids, count, rows.segments);
    if (ctx.attr<bool>("sorted")) check_rising(ctx, ids, count);
    rows.y = segment_shape(x, id_shape, rows.segments);
    if (rows.y.size() == 0) rows.width = 0;  // other sizes may be too large to multiply
    if (rows.width > 0) order_rows(ctx, ids, count, rows);
  });
  return rows;
}

// Throws: Error from ctx for shapes that do not fit, and for ids that are out of range or decrease.
void reduce_segments(KernelContext& ctx, const Reduction& reduction) {
  const SegmentRows rows = segment_rows(ctx);
  const Tensor& input = ctx.input(0);
  Tensor& output = ctx.output(0, rows.y);
  if (rows.segments == 0 || rows.width == 0) return;
  const int64_t* starts = rows.starts.data<int64_t>();
  const int64_t row_bytes = rows.width * size_of(reduction.dtype);
  const char* x = static_cast<const char*>(input.raw());
  char* y = static_cast<char*>(output.mutable_raw());
  Tensor copy;
  if (rows.order.defined()) {
    copy = ctx.scratch(reduction.dtype, Shape{rows.order.size(), rows.width});
    const int64_t* order = rows.order.data<int64_t>();
    copy_rows(
        rows.order.size(), row_bytes, x, copy.mutable_raw(), [=](int64_t i) { return order[i]; },
        same_row);
    x = static_cast<const char*>(copy.raw());
  }
  for (int64_t s = 0; s < rows.segments; ++s, y += row_bytes)
    reduce_elements(
        ctx, reduction,
        {.reduced = starts[s + 1] - starts[s], .inner = rows.width, .x = x + starts[s] * row_bytes},
        y);
}

template <const Reduction& (*kOf)(DType)>
void run_segments(KernelContext& ctx) {
  reduce_segments(ctx, kOf(ctx.input(0).dtype()));
}

// An op for f32, f64, i32 and i64. run: a run_segments().
Op segment_op(std::string name, std::vector<Output> (*gradient)(const GradientContext&),
              Precision precision, void (*run)(KernelContext&)) {
  std::vector<Kernel> kernels;
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64})
    kernels.push_back({.dtype = dtype, .run = run});
  return {
      .name = std::move(name),
      .inputs = {"x", "ids"},
      .outputs = {"y"},
      .attrs = {{"segments", AttrKind::integer, int64_t{-1}}, {"sorted", AttrKind::boolean, true}},
      .infer_dtypes = infer_dtype_with_indices,
      .infer_shapes = infer_shapes,
      .gradient = gradient,
      .kernels = std::move(kernels),
      .value_shapes = true,
      .precision = precision};
}

Output add_segment_op(std::string_view op, Output x, Output ids, int64_t segments, bool sorted,
                      Origin at = Origin::here()) {
  return add_node(
      {.op = op, .inputs = {x, ids}, .attrs = {{"segments", segments}, {"sorted", sorted}}}, at);
}

// The sums of `x` over the segments of the node being differentiated.
Output sums_like(const GradientContext& ctx, Output x) {
  return add_segment_op("SegmentSum", x, ctx.input(1), ctx.attr<int64_t>("segments"),
                        ctx.attr<bool>("sorted"));
}

// The gradient of the greatest and the least: the chosen elements share dy equally. If a segment
// has NaN, the NaN elements are the chosen ones, though NaN equals nothing.
std::vector<Output> share_gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), ids = ctx.input(1), dy = ctx.output_gradient(0);
  const Output equals = cast(equal(x, gather(ctx.output(0), ids)), x.dtype());
  const Output one = constant_like(1, x);
  const Output chosen = where(equal(x, x), equals, one);
  const Output share = divide(dy, maximum(sums_like(ctx, chosen), one));  // avoids 0 / 0
  return {multiply(chosen, gather(share, ids)), Output{}};
}

// Writing dy for dL/dy:  dx = for each row, dy of its segment.
std::vector<Output> sum_gradient(const GradientContext& ctx) {
  return {gather(ctx.output_gradient(0), ctx.input(1)), Output{}};
}

// Writing dy for dL/dy:  dx = dy times the product of the other rows of the segment: y / x for a
// non-zero x, the product of the rest for a single zero, and 0 beside another zero. Second
// derivatives are right if a segment has at most one zero in a position; with two, the derivative
// by both of them is lost.
std::vector<Output> product_gradient(const GradientContext& ctx) {
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

std::vector<int64_t> ones_after(int64_t first, int count) {
  std::vector<int64_t> sizes(static_cast<size_t>(count) + 1, 1);
  sizes[0] = first;
  return sizes;
}

Output mean_of_segments(Output sums, Output ids, int64_t segments) {
  const Output counts = cast(bincount(ids, segments), sums.dtype());
  const Output at_least_one = maximum(counts, constant_like(1, counts));
  return divide(sums, reshape(at_least_one, Shape(ones_after(-1, sums.shape().ndim() - 1))));
}

Output mean_of(Output x, Output ids, int64_t segments, bool sorted, Origin at) {
  const Output sums = add_segment_op("SegmentSum", x, ids, segments, sorted, at);
  if (!is_floating(x.dtype()))
    throw Error(Errc::invalid_argument, "segment means at ", at.file, ":", at.line,
                " are of f32 or f64, got ", x.dtype(), "; cast it");
  const auto scope = x.graph->scope({.name = "segment_mean", .origin = at});
  return mean_of_segments(sums, ids, segments);
}

}  // namespace

std::vector<Op> segment_ops() {
  return {
      // y[s] = the sum of the rows of x whose id is s; zeros for no rows.
      segment_op("SegmentSum", sum_gradient, Precision::wide, run_segments<sum_reduction>),
      // y[s] = the element-wise product of these rows; ones for no rows.
      segment_op("SegmentProd", product_gradient, Precision::wide, run_segments<product_reduction>),
      // y[s] = their element-wise maximum; NaN if one is NaN; for no rows the lowest number,
      // -infinity for floats.
      segment_op("SegmentMax", share_gradient, Precision::same, run_segments<greatest_reduction>),
      // y[s] = their element-wise minimum; NaN if one is NaN; for no rows the greatest number,
      // infinity for floats.
      segment_op("SegmentMin", share_gradient, Precision::same, run_segments<least_reduction>),
  };
}

Output segment_sum(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentSum", x, ids, segments, /*sorted=*/true, at);
}
Output unsorted_segment_sum(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentSum", x, ids, segments, /*sorted=*/false, at);
}
Output segment_prod(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentProd", x, ids, segments, /*sorted=*/true, at);
}
Output unsorted_segment_prod(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentProd", x, ids, segments, /*sorted=*/false, at);
}
Output segment_max(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMax", x, ids, segments, /*sorted=*/true, at);
}
Output unsorted_segment_max(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMax", x, ids, segments, /*sorted=*/false, at);
}
Output segment_min(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMin", x, ids, segments, /*sorted=*/true, at);
}
Output unsorted_segment_min(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMin", x, ids, segments, /*sorted=*/false, at);
}
Output segment_mean(Output x, Output ids, int64_t segments, Origin at) {
  return mean_of(x, ids, segments, /*sorted=*/true, at);
}

Output unsorted_segment_mean(Output x, Output ids, int64_t segments, Origin at) {
  return mean_of(x, ids, segments, /*sorted=*/false, at);
}

}  // namespace troupe
