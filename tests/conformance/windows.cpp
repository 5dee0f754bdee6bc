// Resolves the windows of a node, and builds ONNX's convolutions with Troupe's.
#include "tests/conformance/windows.hpp"

#include <algorithm>

#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

// Borders before and after one dimension.
std::pair<int64_t, int64_t> borders(const NodeCall& c, const Windows& w, size_t d, int64_t input) {
  const int64_t reach = (w.size[d] - 1) * w.dilation[d] + 1;
  const std::string mode = c.text("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const int64_t places = (input + w.stride[d] - 1) / w.stride[d];
    const int64_t all = std::max<int64_t>(0, (places - 1) * w.stride[d] + reach - input);
    return mode == "SAME_UPPER" ? std::pair{all / 2, all - all / 2}
                                : std::pair{all - all / 2, all / 2};
  }
  const std::vector<int64_t> pads = c.integers("pads");
  std::pair<int64_t, int64_t> border{0, 0};
  if (!pads.empty()) border = {pads[d], pads[d + pads.size() / 2]};
  if (c.integer("ceil_mode", 0)) {
    const int64_t rest = (input + border.first + border.second - reach) % w.stride[d];
    if (rest != 0) border.second += w.stride[d] - rest;
  }
  return border;
}

}  // namespace

std::vector<int64_t> spatial_sizes(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

Windows windows_of(const NodeCall& c, const std::vector<int64_t>& input,
                   std::vector<int64_t> kernel) {
  Windows w;
  w.size = c.has_attr("kernel_shape") ? c.integers("kernel_shape") : std::move(kernel);
  w.stride = or_ones(c.integers("strides"), w.size.size());
  w.dilation = or_ones(c.integers("dilations"), w.size.size());
  for (size_t d = 0; d < w.size.size(); ++d) {
    const auto [before, after] = borders(c, w, d, input[d]);
    w.before.push_back(before);
    w.after.push_back(after);
  }
  return w;
}

Output convolve(const NodeCall& c, Output x, Output w) {
  const Windows windows = windows_of(c, spatial_sizes(c.shape(x)), spatial_sizes(c.shape(w)));
  return channels_first(convolution(channels_last(x), filter_of(w),
                                    {.strides = windows.stride,
                                     .dilations = windows.dilation,
                                     .groups = c.integer("group", 1),
                                     .padding = Padding::given,
                                     .before = windows.before,
                                     .after = windows.after}));
}

Output filter_of(Output w) {
  std::vector<int64_t> order;
  for (int d = 2; d < w.shape().ndim(); ++d) order.push_back(d);
  order.insert(order.end(), {1, 0});
  return transpose(w, order);
}

}  // namespace troupe
