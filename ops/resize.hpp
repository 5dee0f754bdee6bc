// What Resize and its gradient share: which inputs an output is made of.
#pragma once

#include <vector>

#include "ops/node.hpp"
#include "troupe/ops/images.hpp"

namespace troupe {

std::vector<AttrSpec> resize_attrs(std::vector<AttrSpec> more = {});
Attrs to_attrs(ResizeOptions options);
ResizeOptions resize_options(const Node& node);
// Throws: Error from ctx for attributes that are none, and images that cannot be resized.
void check_resize(const InferContext& ctx, const Shape& x, int64_t height, int64_t width);

// Along one dimension: output i is (1 - weight[i]) * x[low[i]] + weight[i] * x[high[i]].
struct ResizeTable {
  std::vector<int64_t> low, high;
  std::vector<double> weight;  // 0 for nearest
};
ResizeTable resize_table(int64_t from, int64_t to, ResizeOptions options);

}  // namespace troupe
