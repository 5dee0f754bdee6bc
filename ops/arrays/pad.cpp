// Pad: y = x with a border of before[d] and after[d] elements at the ends of each dimension d.
//   mode: constant: `value`; reflect: x mirrored at its first and last elements, so that a border
//   is smaller than x; symmetric: mirrored beyond them, so that a border is at most as large as x;
//   edge: the first and the last element repeated.
//   x: [n, ...]   y: [before + n + after, ...]
#include "ops/gradients.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "ops/elementwise/number.hpp"
#include "ops/support/padding.hpp"

namespace troupe {
namespace {

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

struct ModeName {
  PadMode mode;
  const char* text;
};
constexpr ModeName kModes[] = {{PadMode::constant, "constant"},
                               {PadMode::reflect, "reflect"},
                               {PadMode::symmetric, "symmetric"},
                               {PadMode::edge, "edge"}};

constexpr OpProperties kProperties = {
    .arrangement = {.reordered = [](const Node& node, const DimensionOrder& order) {
      return reordered(node, order, {"front", "back"});
    }}};

}  // namespace

std::optional<PadMode> pad_mode_from(const std::string& text) {
  for (const ModeName& name : kModes)
    if (text == name.text) return name.mode;
  return {};
}

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

}  // namespace troupe
