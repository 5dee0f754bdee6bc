// Shared by strided_slice and its gradient: the sliced elements.
#pragma once

#include <algorithm>

#include "ops/support/strided.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

std::vector<AttrSpec> strided_slice_attrs();
Attrs strided_slice_attrs(std::vector<int64_t> begin, std::vector<int64_t> end,
                          const StridedSliceOptions& options);
StridedSliceOptions strided_slice_options(const Node& node);

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
  // first(): the offset in x of the first element. walked(): the strides between neighbours.
  int64_t first(const Strides& x) const {
    int64_t first = 0;
    for (int d = 0; d < sizes.ndim(); ++d) first += begin[d] * x[static_cast<size_t>(d)];
    return first;
  }
  Strides walked(const Strides& x) const {
    Strides strides = {};
    for (int d = 0; d < sizes.ndim(); ++d)
      strides[static_cast<size_t>(d)] = step[d] * x[static_cast<size_t>(d)];
    return strides;
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

}  // namespace troupe
