// Rows of ONNX's ops that change the size of images.
#include <cmath>

#include "tests/conformance/mapping.hpp"
#include "troupe/ops/images.hpp"

namespace troupe {
namespace {

// The nearest one, by whole factors.
std::vector<Output> upsample_row(const NodeCall& c) {
  if (c.text("mode", "nearest") != "nearest") throw NotCovered{"another mode than nearest"};
  const Tensor scales = c.value(cast(c.input(1), DType::f64));
  Output x = c.input(0);
  for (int64_t d = 0; d < scales.size(); ++d) {
    const double scale = scales.data<double>()[d];
    if (scale != std::floor(scale)) throw NotCovered{"a factor that is no whole number"};
    if (scale != 1) x = repeat(x, static_cast<int64_t>(scale), d);
  }
  return {x};
}

// Ours takes the upper one of two pixels that are as near, and the lower one where the grid is
// asymmetric.
void check_rounding(const NodeCall& c, PixelGrid grid, int64_t n, int64_t resized) {
  std::string mode = c.text("nearest_mode", "round_prefer_floor");
  if (c.text("coordinate_transformation_mode", "") == "tf_half_pixel_for_nn")  // by 0.5 further on
    mode = mode == "floor" ? "round_prefer_ceil" : "another";
  const bool asymmetric = grid == PixelGrid::asymmetric;
  if (mode == (asymmetric ? "floor" : "round_prefer_ceil")) return;
  if (asymmetric || mode != "round_prefer_floor")
    throw NotCovered{"another rounding to the nearest pixel"};
  for (int64_t i = 0; i < resized; ++i) {
    const auto at = static_cast<double>(i), size = static_cast<double>(n),
               to = static_cast<double>(resized);
    const double p = grid == PixelGrid::half_pixel ? (at + 0.5) * size / to - 0.5
                     : resized > 1                 ? at * (size - 1) / (to - 1)
                                                   : 0;
    if (p - std::floor(p) == 0.5) throw NotCovered{"another rounding to the nearest pixel"};
  }
}

ResizeOptions resize_options(const NodeCall& c) {
  ResizeOptions options;
  const std::string mode = c.text("mode", "nearest");
  if (mode == "cubic") throw NotCovered{"no cubic interpolation"};
  if (mode == "nearest") options.interpolation = Interpolation::nearest;
  const std::string grid = c.text("coordinate_transformation_mode", "half_pixel");
  if (grid == "align_corners")
    options.grid = PixelGrid::align_corners;
  else if (grid == "asymmetric")
    options.grid = PixelGrid::asymmetric;
  else if (grid == "tf_crop_and_resize")
    throw NotCovered{"no sampling at coordinates"};
  return options;
}

std::vector<Output> resize_row(const NodeCall& c) {
  const Output x = c.input(0);
  const ResizeOptions options = resize_options(c);
  const std::string grid = c.text("coordinate_transformation_mode", "half_pixel");
  const Shape shape = c.shape(x);
  std::vector<int64_t> sizes;
  if (c.has_input(3)) {
    sizes = c.integers(c.input(3));
  } else {
    const Tensor scales = c.value(cast(c.input(2), DType::f64));
    for (int d = 0; d < shape.ndim(); ++d) {
      const double size = static_cast<double>(shape[d]) * scales.data<double>()[d];
      if (size != std::round(size)) throw NotCovered{"a scale that is not that of the sizes"};
      sizes.push_back(static_cast<int64_t>(size));
    }
  }
  for (int d = 2; d < 4; ++d) {
    const int64_t size = sizes.at(static_cast<size_t>(d));
    if (grid == "pytorch_half_pixel" && size == 1)
      throw NotCovered{"another place for a single pixel"};
    if (options.interpolation == Interpolation::nearest)
      check_rounding(c, options.grid, shape[d], size);
  }
  return {channels_first(resize(channels_last(x), sizes[2], sizes[3], options))};
}

}  // namespace

std::vector<MappedOp> image_rows() {
  return {
      {"Resize", "resize", resize_row},
      {"Upsample", "repeat", upsample_row},
  };
}

}  // namespace troupe
