// Shared by pad and its gradient: attributes, sizes, and the source element of each border element.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// The attributes front (the border before), back (the border after; "after" is a word of the text
// form) and mode.
std::vector<AttrSpec> border_attrs();
Attrs border_attrs(std::vector<int64_t> before, std::vector<int64_t> after, PadMode mode);

std::optional<PadMode> pad_mode_from(const std::string& text);

// Throws: Error from ctx.
template <class Context>
PadMode pad_mode(const Context& ctx) {
  const std::string& text = ctx.template attr<std::string>("mode");
  const std::optional<PadMode> mode = pad_mode_from(text);
  if (!mode)
    throw ctx.error("pads with mode constant, reflect, symmetric or edge, not \"", text, "\"");
  return *mode;
}
// The mode of a node that has been checked.
inline PadMode pad_mode(const GradientContext& ctx) {
  return pad_mode_from(ctx.attr<std::string>("mode")).value();
}

// The widest border that the mode can fill from x of size n.
inline int64_t border_max(PadMode mode, int64_t n) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  if (mode == PadMode::constant) return kAny;
  if (mode == PadMode::edge) return n > 0 ? kAny : 0;
  return mode == PadMode::symmetric ? n : std::max<int64_t>(n - 1, 0);
}

// The index of x's element that fills border index i (below 0, or not below n), for a mode that is
// not constant.
inline int64_t border_source(PadMode mode, int64_t i, int64_t n) {
  if (mode == PadMode::edge) return i < 0 ? 0 : n - 1;
  const int64_t past = mode == PadMode::symmetric ? 1 : 0;
  return i < 0 ? -i - past : 2 * (n - 1) - i + past;
}

template <class Context>
void check_borders(const Context& ctx, const Shape& x) {
  const auto& before = ctx.template attr<std::vector<int64_t>>("front");
  const auto& after = ctx.template attr<std::vector<int64_t>>("back");
  const PadMode mode = pad_mode(ctx);
  const auto ndim = static_cast<size_t>(x.ndim());
  if (before.size() != ndim || after.size() != ndim)
    throw ctx.error("wants a border before and one after each of ", ndim, " dimensions, got ",
                    before.size(), " and ", after.size());
  for (size_t d = 0; d < ndim; ++d) {
    if (before[d] < 0 || after[d] < 0)
      throw ctx.error("wants borders of at least 0 along axis ", d, ", got ", before[d], " and ",
                      after[d], "; slice cuts elements off");
    const int64_t n = x[static_cast<int>(d)];
    const int64_t most = n < 0 ? border_max(PadMode::constant, n) : border_max(mode, n);
    if (before[d] > most || after[d] > most)
      throw ctx.error("cannot pad axis ", d, " of ", x, " by ", before[d], " and ", after[d],
                      ": mode ", ctx.template attr<std::string>("mode"), " has elements for ", most,
                      " at each end");
  }
}

// x with its borders.
template <class Context>
Shape padded_shape(const Context& ctx, const Shape& x) {
  check_borders(ctx, x);
  const auto& before = ctx.template attr<std::vector<int64_t>>("front");
  const auto& after = ctx.template attr<std::vector<int64_t>>("back");
  Shape y = x;
  for (int d = 0; d < x.ndim(); ++d) {
    const int64_t b = before[static_cast<size_t>(d)], a = after[static_cast<size_t>(d)];
    int64_t size = x[d];
    if (size >= 0 &&
        (__builtin_add_overflow(size, b, &size) || __builtin_add_overflow(size, a, &size)))
      throw ctx.error("cannot pad axis ", d, " of ", x, " by ", b, " and ", a,
                      "; it would be past 2^63");
    y.set(d, size);
  }
  return y;
}

// y without its borders.
template <class Context>
Shape unpadded_shape(const Context& ctx, const Shape& y) {
  const auto& before = ctx.template attr<std::vector<int64_t>>("front");
  const auto& after = ctx.template attr<std::vector<int64_t>>("back");
  Shape x = y;
  for (int d = 0; d < y.ndim(); ++d) {
    const auto i = static_cast<size_t>(d);
    if (y[d] < 0 || i >= before.size() || i >= after.size()) continue;
    if (before[i] > y[d] || after[i] > y[d] - std::max<int64_t>(before[i], 0))
      throw ctx.error("axis ", d, " of ", y, " is smaller than its borders, ", before[i], " and ",
                      after[i]);
    if (before[i] >= 0 && after[i] >= 0) x.set(d, y[d] - before[i] - after[i]);
  }
  check_borders(ctx, x);
  return x;
}

}  // namespace troupe
