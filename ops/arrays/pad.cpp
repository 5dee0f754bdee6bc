// Pad: y = x with a border of before[d] and after[d] elements at the ends of each dimension d.
//   mode: constant: `value`; reflect: x mirrored at its first and last elements, so that a border
//   is smaller than x; symmetric: mirrored beyond them, so that a border is at most as large as x;
//   edge: the first and the last element repeated.
//   x: [n, ...]   y: [before + n + after, ...]
//
// PadGradient: dx = dy without its borders, where each border element is added to its source
// element in x under that mode. For borders made of elements; constant borders are cut off.
//   dy: [before + n + after, ...]   dx: [n, ...]
// Elements are added border after border, starting with the outermost dimension and index 0.
#include <algorithm>
#include <limits>
#include <optional>

#include "ops/elementwise/number.hpp"
#include "ops/gradients.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/node.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

struct ModeName {
  PadMode mode;
  const char* text;
};
constexpr ModeName kModes[] = {{PadMode::constant, "constant"},
                               {PadMode::reflect, "reflect"},
                               {PadMode::symmetric, "symmetric"},
                               {PadMode::edge, "edge"}};

std::optional<PadMode> pad_mode_from(const std::string& text) {
  for (const ModeName& name : kModes)
    if (text == name.text) return name.mode;
  return {};
}

// The attributes front (the border before), back (the border after; "after" is a word of the text
// form) and mode.
std::vector<AttrSpec> border_attrs() {
  return {{"front", AttrKind::integers},
          {"back", AttrKind::integers},
          {"mode", AttrKind::text, std::string("constant")}};
}

Attrs border_attrs(std::vector<int64_t> before, std::vector<int64_t> after, PadMode mode) {
  const auto* name = std::find_if(std::begin(kModes), std::end(kModes),
                                  [&](const ModeName& m) { return m.mode == mode; });
  return {
      {"front", std::move(before)}, {"back", std::move(after)}, {"mode", std::string(name->text)}};
}

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
PadMode pad_mode(const GradientContext& ctx) {
  return pad_mode_from(ctx.attr<std::string>("mode")).value();
}

// The widest border that the mode can fill from x of size n.
int64_t border_max(PadMode mode, int64_t n) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  if (mode == PadMode::constant) return kAny;
  if (mode == PadMode::edge) return n > 0 ? kAny : 0;
  return mode == PadMode::symmetric ? n : std::max<int64_t>(n - 1, 0);
}

// The index of x's element that fills border index i (below 0, or not below n), for a mode that is
// not constant.
int64_t border_source(PadMode mode, int64_t i, int64_t n) {
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

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const bool uses_value = pad_mode(ctx) == PadMode::constant;
  if (uses_value && !fits(ctx.attr<double>("value"), ctx.dtype(0)))
    throw ctx.error("the value ", ctx.attr<double>("value"), " is no ", ctx.dtype(0),
                    " value; cast x first, or pad with a number that fits");
  return {padded_shape(ctx, ctx.input(0))};
}

// Writing dy for dL/dy:  dx = dy without its borders; in the modes that mirror or repeat, each
// border element is added to its source element.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0);
  const auto& before = ctx.attr<std::vector<int64_t>>("front");
  const auto& after = ctx.attr<std::vector<int64_t>>("back");
  const PadMode mode = pad_mode(ctx);
  if (mode != PadMode::constant) return {pad_gradient(dy, before, after, mode)};
  std::vector<int64_t> end;
  int64_t end_mask = 0;
  for (size_t d = 0; d < after.size(); ++d) {
    end.push_back(-after[d]);
    if (after[d] == 0) end_mask |= int64_t{1} << d;
  }
  return {strided_slice(dy, before, end, {.end_mask = end_mask})};
}

struct Frame {
  Shape x;
  const std::vector<int64_t>& before;
  const std::vector<int64_t>& after;
  PadMode mode;
  DType dtype;
  double value;
  int64_t bytes[Shape::kNdimMax];  // of one slice of y in dimension d

  // Writes the slices of dimension d from the current position in x, and advances that position.
  void write(int d, const char*& from, char* y) const {
    const int64_t n = x[d], slice = bytes[d];
    const int64_t first = before[static_cast<size_t>(d)], last = after[static_cast<size_t>(d)];
    char* inside = y + first * slice;
    if (d + 1 < x.ndim()) {
      for (int64_t i = 0; i < n; ++i) write(d + 1, from, inside + i * slice);
    } else if (n > 0) {
      std::memcpy(inside, from, static_cast<size_t>(n * slice));
      from += n * slice;
    }
    if (mode == PadMode::constant) {
      const int64_t elements = slice / size_of(dtype);
      set_elements(y, dtype, value, first * elements);
      set_elements(inside + n * slice, dtype, value, last * elements);
      return;
    }
    const auto show = [&](int64_t i) {
      std::memcpy(inside + i * slice, inside + border_source(mode, i, n) * slice,
                  static_cast<size_t>(slice));
    };
    for (int64_t i = -first; i < 0; ++i) show(i);
    for (int64_t i = n; i < n + last; ++i) show(i);
  }
};

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape(), y_shape = padded_shape(ctx, shape);
  if (shape == y_shape) return ctx.set_output(0, x);
  Tensor& y = ctx.output(0, y_shape);
  if (y.size() == 0) return;
  const PadMode mode = pad_mode(ctx);
  Frame frame{shape,
              ctx.attr<std::vector<int64_t>>("front"),
              ctx.attr<std::vector<int64_t>>("back"),
              mode,
              x.dtype(),
              mode == PadMode::constant ? ctx.attr<double>("value") : 0,
              {}};
  for (int d = 0; d < shape.ndim(); ++d)
    frame.bytes[d] = size_between(y_shape, d + 1, y_shape.ndim()) * size_of(x.dtype());
  const char* from = static_cast<const char*>(x.raw());
  frame.write(0, from, static_cast<char*>(y.mutable_raw()));
}

constexpr OpProperties kProperties = {
    .arrangement = {.reordered = [](const Node& node, const DimensionOrder& order) {
      return reordered(node, order, {"front", "back"});
    }}};

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  if (pad_mode(ctx) == PadMode::constant)
    throw ctx.error("adds borders of mode reflect, symmetric or edge; cut those of a constant off");
  return {unpadded_shape(ctx, ctx.input(0))};
}

// Writing g for the gradient of dx, the gradient of dy is g padded.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {pad(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("front"),
              ctx.attr<std::vector<int64_t>>("back"), {.mode = pad_mode(ctx)})};
}

template <class T>
struct Fold {
  Shape x;
  const std::vector<int64_t>& before;
  const std::vector<int64_t>& after;
  PadMode mode;
  int64_t elements[Shape::kNdimMax];  // of one slice of dy in dimension d

  // Adds the borders of dimension d's slices to their source elements, then handles the inner
  // slices.
  void take(int d, T* dy, T*& dx) const {
    const int64_t n = x[d], slice = elements[d];
    const int64_t first = before[static_cast<size_t>(d)], last = after[static_cast<size_t>(d)];
    T* inside = dy + first * slice;
    const auto add_to_source = [&](int64_t i) {
      T* to = inside + border_source(mode, i, n) * slice;
      const T* from = inside + i * slice;
      for (int64_t j = 0; j < slice; ++j) to[j] += from[j];
    };
    for (int64_t i = -first; i < 0; ++i) add_to_source(i);
    for (int64_t i = n; i < n + last; ++i) add_to_source(i);
    if (d + 1 < x.ndim()) {
      for (int64_t i = 0; i < n; ++i) take(d + 1, inside + i * slice, dx);
    } else {
      dx = std::copy_n(inside, n, dx);
    }
  }
};

template <class T>
void cpu_gradient(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape dy_shape = dy.shape(), shape = unpadded_shape(ctx, dy_shape);
  if (shape == dy_shape) return ctx.set_output(0, dy);
  T* dx = ctx.output(0, shape).mutable_data<T>();
  if (shape.size() == 0) return;
  Tensor sums = ctx.scratch(dy.dtype(), dy_shape);
  std::copy_n(dy.data<T>(), dy.size(), sums.mutable_data<T>());
  Fold<T> fold{shape,
               ctx.attr<std::vector<int64_t>>("front"),
               ctx.attr<std::vector<int64_t>>("back"),
               pad_mode(ctx),
               {}};
  for (int d = 0; d < shape.ndim(); ++d)
    fold.elements[d] = size_between(dy_shape, d + 1, dy_shape.ndim());
  fold.take(0, sums.mutable_data<T>(), dx);
}

}  // namespace

Op pad_op() {
  std::vector<AttrSpec> attrs = border_attrs();
  attrs.push_back({"value", AttrKind::real, 0.0});
  return {.name = "Pad",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = attrs,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .properties = &kProperties};
}

Output pad(Output x, std::vector<int64_t> before, std::vector<int64_t> after, PadOptions options,
           Origin at) {
  Attrs attrs = border_attrs(std::move(before), std::move(after), options.mode);
  attrs.emplace("value", options.value);
  return add_node({.op = "Pad", .inputs = {x}, .attrs = std::move(attrs)}, at);
}

Op pad_gradient_op() {
  return {.name = "PadGradient",
          .inputs = {"dy"},
          .outputs = {"dx"},
          .attrs = border_attrs(),
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = float_kernels(cpu_gradient<float>, cpu_gradient<double>)};
}

Output pad_gradient(Output dy, std::vector<int64_t> before, std::vector<int64_t> after,
                    PadMode mode, Origin at) {
  return add_node({.op = "PadGradient",
                   .inputs = {dy},
                   .attrs = border_attrs(std::move(before), std::move(after), mode)},
                  at);
}

}  // namespace troupe
