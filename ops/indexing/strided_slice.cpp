// StridedSlice: y = x[begin:end:stride, ...] as in NumPy, with one begin, end and stride for each
// entry; each entry handles one dimension of x, in order.
//   A negative begin or end counts from the end; past the ends, both are clamped. A negative stride
//   goes backwards. Bit i of a mask applies to entry i: begin_mask and end_mask: from the start, to
//   the end, in the direction of the stride; ellipsis_mask: all dimensions that no other entry
//   takes (without an ellipsis, those are the last ones); new_axis_mask: a dimension of size 1 that
//   x does not have; shrink_axis_mask: the index `begin` alone, and y lacks the dimension. If
//   several bits are set, ellipsis has priority over new axis, and new axis over shrink.
//
// StridedSliceGradient: zeros like x, with dy at the sliced elements.
//   attributes: of the slice   dy: the slice's shape   x_like: only its shape is read
//   dx: the shape of x_like.
#include <algorithm>

#include "ops/gradients.hpp"
#include "ops/support/node.hpp"
#include "ops/support/strided.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<AttrSpec> strided_slice_attrs() {
  return {{"begin", AttrKind::integers},
          {"end", AttrKind::integers},
          {"strides", AttrKind::integers, std::vector<int64_t>{}},
          {"begin_mask", AttrKind::integer, int64_t{0}},
          {"end_mask", AttrKind::integer, int64_t{0}},
          {"ellipsis_mask", AttrKind::integer, int64_t{0}},
          {"new_axis_mask", AttrKind::integer, int64_t{0}},
          {"shrink_axis_mask", AttrKind::integer, int64_t{0}}};
}

Attrs strided_slice_attrs(std::vector<int64_t> begin, std::vector<int64_t> end,
                          const StridedSliceOptions& options) {
  return {{"begin", std::move(begin)},
          {"end", std::move(end)},
          {"strides", options.strides},
          {"begin_mask", options.begin_mask},
          {"end_mask", options.end_mask},
          {"ellipsis_mask", options.ellipsis_mask},
          {"new_axis_mask", options.new_axis_mask},
          {"shrink_axis_mask", options.shrink_axis_mask}};
}

StridedSliceOptions strided_slice_options(const Node& node) {
  return {.strides = node.attr<std::vector<int64_t>>("strides"),
          .begin_mask = node.attr<int64_t>("begin_mask"),
          .end_mask = node.attr<int64_t>("end_mask"),
          .ellipsis_mask = node.attr<int64_t>("ellipsis_mask"),
          .new_axis_mask = node.attr<int64_t>("new_axis_mask"),
          .shrink_axis_mask = node.attr<int64_t>("shrink_axis_mask")};
}

// In each dimension d of x: sizes[d] indices begin, begin + step, ... A size of -1 is unknown, and
// so is its `begin`.
struct SteppedBox {
  Shape sizes;
  Shape y;  // sizes without the dimensions of single indices, with the new axes
  int64_t begin[Shape::kNdimMax] = {};
  int64_t step[Shape::kNdimMax] = {};

  bool is_whole(const Shape& x, int d) const {
    return begin[d] == 0 && step[d] == 1 && sizes[d] == x[d];
  }
  // Over the elements of x.
  StridedWalk walk(const Shape& x) const {
    const Strides dense = dense_strides(x);
    StridedWalk walk{sizes};
    for (int d = 0; d < sizes.ndim(); ++d) {
      walk.first += begin[d] * dense[static_cast<size_t>(d)];
      walk.strides[static_cast<size_t>(d)] = step[d] * dense[static_cast<size_t>(d)];
    }
    return walk;
  }
};

// One entry of begin, end and strides.
struct SliceEntry {
  int64_t begin = 0, end = 0, step = 1;
  bool from_start = false, to_end = false, is_index = false;
};

// Converts entry `e` to indices into dimension d of x.
template <class Context>
void take_dimension(const Context& ctx, const Shape& x, int d, const SliceEntry& e,
                    SteppedBox& box) {
  const int64_t n = x[d];
  if (e.step == 0) throw ctx.error("wants strides other than 0, got 0 along axis ", d, " of ", x);
  box.step[d] = 1;
  if (e.is_index && n >= 0 && (e.begin < -n || e.begin >= n))
    throw ctx.error("index ", e.begin, " is not within axis ", d, " of ", x,
                    "; indices go from 0, or from -size, to size - 1");
  if (n < 0 || e.is_index) {
    box.begin[d] = e.is_index && n >= 0 && e.begin < 0 ? e.begin + n : e.begin;
    return box.sizes.set(d, e.is_index ? 1 : -1);
  }
  const bool forward = e.step > 0;
  const int64_t low = forward ? 0 : -1, high = forward ? n : n - 1;
  const auto within = [&](int64_t i) { return std::clamp(i < 0 ? i + n : i, low, high); };
  const int64_t begin = e.from_start ? (forward ? low : high) : within(e.begin);
  const int64_t end = e.to_end ? (forward ? high : low) : within(e.end);
  const int64_t size = forward ? (begin < end ? (end - begin - 1) / e.step + 1 : 0)
                               : (begin > end ? (end - begin + 1) / e.step + 1 : 0);
  box.begin[d] = size > 0 ? begin : 0;
  box.step[d] = size > 1 ? e.step : 1;
  box.sizes.set(d, size);
}

// Throws: Error from ctx.
template <class Context>
SteppedBox stepped_box(const Context& ctx, const Shape& x) {
  const StridedSliceOptions options = strided_slice_options(ctx.node());
  const auto& begin = ctx.template attr<std::vector<int64_t>>("begin");
  const auto& end = ctx.template attr<std::vector<int64_t>>("end");
  const std::vector<int64_t>& strides = options.strides;
  constexpr size_t kEntriesMax = 2 * Shape::kNdimMax;  // each dimension, and a new axis beside each
  if (end.size() != begin.size() || (!strides.empty() && strides.size() != begin.size()) ||
      begin.size() > kEntriesMax)
    throw ctx.error("wants as many ends as begins, as many strides or none, and at most ",
                    kEntriesMax, " of them, got ", begin.size(), " begins, ", end.size(),
                    " ends and ", strides.size(), " strides");
  const auto has = [](int64_t mask, size_t i) { return (mask >> i & 1) != 0; };
  int taken = 0, ellipses = 0;
  for (size_t i = 0; i < begin.size(); ++i) {
    if (has(options.ellipsis_mask, i))
      ++ellipses;
    else
      taken += !has(options.new_axis_mask, i);
  }
  if (ellipses > 1) throw ctx.error("wants at most one ellipsis, got ", ellipses);
  if (taken > x.ndim())
    throw ctx.error("takes ", taken, " dimensions, but ", x, " has ", x.ndim(),
                    "; leave some begins and ends out");
  SteppedBox box;
  box.sizes = x;
  std::vector<int64_t> y;
  int d = 0;
  const auto take_whole = [&](int count) {
    for (; count > 0; --count, ++d) {
      take_dimension(ctx, x, d, {.from_start = true, .to_end = true}, box);
      y.push_back(x[d]);
    }
  };
  for (size_t i = 0; i < begin.size(); ++i) {
    if (has(options.ellipsis_mask, i)) {
      take_whole(x.ndim() - taken);
    } else if (has(options.new_axis_mask, i)) {
      y.push_back(1);
    } else {
      const bool is_index = has(options.shrink_axis_mask, i);
      take_dimension(ctx, x, d,
                     {begin[i], end[i], strides.empty() ? 1 : strides[i],
                      has(options.begin_mask, i), has(options.end_mask, i), is_index},
                     box);
      if (!is_index) y.push_back(box.sizes[d]);
      ++d;
    }
  }
  take_whole(x.ndim() - d);
  if (y.size() > Shape::kNdimMax)
    throw ctx.error("would have ", y.size(), " dimensions; there are at most ",
                    int{Shape::kNdimMax});
  box.y = Shape(y);
  return box;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {stepped_box(ctx, ctx.input(0)).y};
}

// Writing dy for dL/dy:  dx = dy at the sliced elements, zeros elsewhere.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {strided_slice_gradient(
      ctx.output_gradient(0), ctx.input(0), ctx.attr<std::vector<int64_t>>("begin"),
      ctx.attr<std::vector<int64_t>>("end"), strided_slice_options(ctx.node()))};
}

// Consecutive rows share x's memory.
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape();
  const SteppedBox box = stepped_box(ctx, shape);
  int whole = shape.ndim();  // the first of the dimensions that are taken whole
  while (whole > 0 && box.is_whole(shape, whole - 1)) --whole;
  if (whole == 0) return ctx.set_output(0, x.reshaped(box.y));
  if (whole == 1 && box.step[0] == 1)
    return ctx.set_output(0, x.rows(box.begin[0], box.begin[0] + box.sizes[0]).reshaped(box.y));
  take_walked(ctx, x, box.walk(shape), ctx.output(0, box.y));
}

template <class Context>
SteppedBox checked_box(const Context& ctx, const Shape& dy, const Shape& x) {
  SteppedBox box = stepped_box(ctx, x);
  if (!may_equal(dy, box.y))
    throw ctx.error("wants dy of shape ", box.y, ", which the slice of ", x, " has, got ", dy);
  return box;
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  checked_box(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Writing g for the gradient of dx, the gradient of dy is the same slice of g.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {strided_slice(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("begin"),
                        ctx.attr<std::vector<int64_t>>("end"), strided_slice_options(ctx.node())),
          Output{}};
}

void cpu_gradient(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape x = ctx.input(1).shape();
  const SteppedBox box = checked_box(ctx, dy.shape(), x);
  place_walked(ctx, dy, box.walk(x), ctx.output(0, x));
}

}  // namespace

Op strided_slice_op() {
  return {.name = "StridedSlice",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = strided_slice_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output strided_slice(Output x, std::vector<int64_t> begin, std::vector<int64_t> end,
                     StridedSliceOptions options, Origin at) {
  return add_node({.op = "StridedSlice",
                   .inputs = {x},
                   .attrs = strided_slice_attrs(std::move(begin), std::move(end), options)},
                  at);
}

Op strided_slice_gradient_op() {
  return {.name = "StridedSliceGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = strided_slice_attrs(),
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu_gradient}}};
}

Output strided_slice_gradient(Output dy, Output x_like, std::vector<int64_t> begin,
                              std::vector<int64_t> end, StridedSliceOptions options, Origin at) {
  return add_node({.op = "StridedSliceGradient",
                   .inputs = {dy, x_like},
                   .attrs = strided_slice_attrs(std::move(begin), std::move(end), options)},
                  at);
}

}  // namespace troupe
