// Shared by resize and its gradient: attributes, checks, and the source pixels in x for the pixels
// of y.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/support/node.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {

// ---- images ----

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

// Elements of one job: at least 20 us.
constexpr int64_t kElementsOfJob = 1 << 16;

// ---- options ----

std::vector<AttrSpec> resize_attrs();
Attrs to_attrs(int64_t height, int64_t width, ResizeOptions options);
// Throws: Error from ctx for an unknown word.
template <class Context>
ResizeOptions resize_options(const Context& ctx) {
  const std::string& interpolation = ctx.template attr<std::string>("interpolation");
  const std::string& grid = ctx.template attr<std::string>("grid");
  ResizeOptions options;
  if (interpolation == "nearest")
    options.interpolation = Interpolation::nearest;
  else if (interpolation != "bilinear")
    throw ctx.error("interpolates nearest or bilinear, not \"", interpolation, "\"");
  if (grid == "align_corners")
    options.grid = PixelGrid::align_corners;
  else if (grid == "asymmetric")
    options.grid = PixelGrid::asymmetric;
  else if (grid != "half_pixel")
    throw ctx.error("has grids half_pixel, align_corners and asymmetric, not \"", grid, "\"");
  return options;
}

// The shape of y, [batch, size, channels], for x.
template <class Context>
Shape resized_shape(const Context& ctx, const Shape& x) {
  require_images(ctx, x);
  const auto& size = image_size(ctx, 1);
  if (x[1] == 0 || x[2] == 0)
    throw ctx.error("there are no pixels in ", x, "; pass images that have some");
  return {x[0], size[0], size[1], x[3]};
}

// ---- pixels ----

// For each pixel of one dimension of y: the two pixels of x around it, and the weight of the upper
// one.
struct Neighbours {
  Tensor low, high;  // i64; equal if the weight is 0
  Tensor part;       // f64; all 0 for nearest interpolation, which takes `low`
};
Neighbours neighbours(KernelContext& ctx, int64_t n, int64_t resized, ResizeOptions options);

// dL/dx of a resize to height and width, from dy = dL/dy. Only the shape of x_like is read.
Output resize_gradient(Output dy, Output x_like, int64_t height, int64_t width,
                       ResizeOptions options, Origin at = Origin::here());

}  // namespace troupe
