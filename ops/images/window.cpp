// Sliding windows: the attributes and sizes of convolutions and pools.
#include "ops/images/window.hpp"

#include <cmath>
#include <optional>

namespace troupe {
namespace {

constexpr const char* kPaddings[] = {"valid", "same", "given"};  // in the order of Padding

std::optional<Padding> padding_from(const std::string& text) {
  for (int i = 0; i < 3; ++i)
    if (text == kPaddings[i]) return static_cast<Padding>(i);
  return {};
}

}  // namespace

void add_padding_attrs(std::vector<AttrSpec>& specs, Padding padding) {
  specs.push_back(
      {"padding", AttrKind::text, std::string(kPaddings[static_cast<size_t>(padding)])});
  specs.push_back({"front", AttrKind::integers, std::vector<int64_t>{}});
  specs.push_back({"back", AttrKind::integers, std::vector<int64_t>{}});
}

void add_padding_attrs(Attrs& attrs, Padding padding, const std::vector<int64_t>& before,
                       const std::vector<int64_t>& after) {
  attrs.emplace("padding", std::string(kPaddings[static_cast<size_t>(padding)]));
  attrs.emplace("front", before);
  attrs.emplace("back", after);
}

Padding padding_of(const InferContext& ctx) {
  const std::string& text = ctx.attr<std::string>("padding");
  const std::optional<Padding> padding = padding_from(text);
  if (!padding) throw ctx.error("pads with valid, same or given, not \"", text, "\"");
  return *padding;
}

Padding padding_of(const Node& node) {
  return padding_from(node.attr<std::string>("padding")).value();
}

void check_windows(const InferContext& ctx, const WindowSpec& spec, int dims) {
  const auto check = [&](const char* what, std::span<const int64_t> list, int64_t least) {
    if (list.size() > 1 && list.size() != static_cast<size_t>(dims))
      throw ctx.error("wants one number or ", dims, " for ", what, ", one for each dimension of ",
                      "the images, got ", list.size());
    for (const int64_t n : list)
      if (n < least) throw ctx.error("wants ", what, " of at least ", least, ", got ", n);
  };
  check("strides", spec.strides, 1);
  check("dilations", spec.dilations, 1);
  check("padding before", spec.before, 0);
  check("padding after", spec.after, 0);
  if (spec.padding != Padding::given && !(spec.before.empty() && spec.after.empty()))
    throw ctx.error("wants `before` and `after` with Padding::given alone");
}

Sliding slide(int64_t input, int64_t window, const WindowSpec& spec, int d) {
  const auto at = static_cast<size_t>(d);
  Sliding s{.input = input,
            .window = window,
            .stride = WindowSpec::of(spec.strides, at, 1),
            .dilation = WindowSpec::of(spec.dilations, at, 1),
            .output = -1};
  int64_t reach = 0, padded = 0;  // reach: from the window's first to its last position
  if (__builtin_mul_overflow(window - 1, s.dilation, &reach)) return s;
  if (spec.padding == Padding::same) {
    s.output = input == 0 ? 0 : (input - 1) / s.stride + 1;
    if (input == 0) return s;
    // (output - 1) * stride is below input, so nothing here overflows.
    const int64_t padding = std::max<int64_t>(reach - (input - 1 - (s.output - 1) * s.stride), 0);
    s.before = padding / 2;
    s.after = padding - s.before;
    return s;
  }
  s.before = WindowSpec::of(spec.before, at, 0);
  s.after = WindowSpec::of(spec.after, at, 0);
  if (__builtin_add_overflow(input, s.before, &padded) ||
      __builtin_add_overflow(padded, s.after, &padded))
    return s;
  if (reach < padded) s.output = (padded - 1 - reach) / s.stride + 1;
  return s;
}

int64_t images_of_job(int64_t batch, double cost, int64_t least, double job_min) {
  const int64_t images = cost * static_cast<double>(least) >= job_min
                             ? least
                             : static_cast<int64_t>(std::ceil(job_min / std::max(cost, 1.0)));
  return batch < 2 * images ? std::max<int64_t>(batch, 1) : images;
}

}  // namespace troupe
