// Shared by resize, crop and their gradients: checks of images.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/support/node.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {

// Context: InferContext or KernelContext. Throws: Error(invalid_argument).
template <class Context>
void require_images(const Context& ctx, const Shape& x) {
  if (x.ndim() != 4) throw ctx.error("wants images [batch, height, width, channels], got ", x);
}

// The attribute `size`: height and width, each at least `least`.
template <class Context>
const std::vector<int64_t>& image_size(const Context& ctx, int64_t least) {
  const auto& size = ctx.template attr<std::vector<int64_t>>("size");
  if (size.size() != 2 || size[0] < least || size[1] < least)
    throw ctx.error("wants a height and a width of at least ", least);
  return size;
}

}  // namespace troupe
