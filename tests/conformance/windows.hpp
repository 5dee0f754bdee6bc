// Windows of ONNX's convolutions and pools, resolved to explicit borders.
#pragma once

#include <vector>

#include "tests/conformance/mapping.hpp"

namespace troupe {

struct Windows {
  std::vector<int64_t> size, stride, dilation;  // one for each spatial dimension
  std::vector<int64_t> before, after;           // borders
};
// The windows of a node whose input has these sizes; `kernel` is used if the node has no attribute
// for it. Borders follow auto_pad; with ceil_mode they grow at the end until the last window fits.
Windows windows_of(const NodeCall& c, const std::vector<int64_t>& input,
                   std::vector<int64_t> kernel = {});
// The sizes of dimensions 2 and up.
std::vector<int64_t> spatial_sizes(const Shape& shape);
// [o, i, ...] -> [..., i, o].
Output filter_of(Output w);

// ONNX's convolution of x [n, c, ...] and w [o, c / groups, ...], by the attributes of the node.
Output convolve(const NodeCall& c, Output x, Output w);

}  // namespace troupe
