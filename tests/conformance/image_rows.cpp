// Rows of ONNX's ops that resize images or sample them at coordinates.
#include <cmath>

#include "tests/conformance/mapping.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

// The nearest pixel, for integral factors.
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

// Our function takes the upper of two equidistant pixels, or on an asymmetric grid the lower one.
void check_rounding(const NodeCall& c, PixelGrid grid, int64_t n, int64_t resized) {
  std::string mode = c.text("nearest_mode", "round_prefer_floor");
  if (c.text("coordinate_transformation_mode", "") == "tf_half_pixel_for_nn")  // shifted by 0.5
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

// ---- GridSample ----

// A pixel next to a coordinate, as a whole number, and its weight there.
struct Tap {
  Output place, weight;
};

// The convolution of Keys ("Cubic convolution interpolation for digital image processing", 1981)
// with a = -0.75, for t in [0, 2].
Output cubic(Output t) {
  constexpr double a = -0.75;
  const Output near = ((a + 2) * t - (a + 3)) * t * t + 1;
  const Output far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
  return where(less_equal(t, number_like(t, 1)), near, far);
}

// The taps of coordinates `at`.
std::vector<Tap> taps_of(Output at, const std::string& mode) {
  if (mode == "nearest") return {{round(at), number_like(at, 1)}};
  const Output first = floor(at), part = at - first;
  if (mode == "bilinear") return {{first, 1 - part}, {first + 1, part}};
  std::vector<Tap> taps;
  for (int i = -1; i <= 2; ++i) taps.push_back({first + i, cubic(abs(part - i))});
  return taps;
}

// One axis of the images: its size, and the treatment of coordinates outside of it.
struct Axis {
  double size;
  bool corners;         // -1 and 1 are the centres of the outer pixels, else their borders
  std::string padding;  // zeros, border or reflection

  Output coordinate(Output grid) const {
    return corners ? (grid + 1) / 2 * (size - 1) : ((grid + 1) * size - 1) / 2;
  }
  Output inside(Output at) const {
    if (padding == "border") return clip(at, 0, size - 1);
    if (padding != "reflection") return at;
    const double low = corners ? 0 : -0.5, length = corners ? size - 1 : size;
    const Output way = mod(abs(at - low), number_like(at, 2 * length));
    return minimum(way, 2 * length - way) + low;
  }
  // 1 where the place is on the axis, else 0.
  Output seen(Output place) const {
    const Output on = greater_equal(place, number_like(place, 0)) &
                      less_equal(place, number_like(place, size - 1));
    return cast(on, place.dtype());
  }
};

std::vector<Output> grid_sample_row(const NodeCall& c) {
  const Output images = channels_last(c.input(0)), grid = c.input(1);
  const Shape shape = c.shape(images);
  const std::string mode = c.text("mode", "bilinear"), padding = c.text("padding_mode", "zeros");
  const auto axis = [&](int dimension) {
    return Axis{static_cast<double>(shape[dimension]), c.integer("align_corners", 0) != 0, padding};
  };
  const Axis height = axis(1), width = axis(2);
  const auto taps = [&](const Axis& of, int64_t index) {
    const Output all = of.coordinate(squeeze(slice(grid, {0, 0, 0, index}, {-1, -1, -1, 1}), {3}));
    return taps_of(mode == "bicubic" ? all : of.inside(all), mode);
  };
  const Output rows = reshape(images, {-1, shape[3]});
  const Output batch =
      reshape(range(c.graph, 0, static_cast<double>(shape[0]), 1, DType::i64), {shape[0], 1, 1});
  const auto pixel = [&](const Axis& of, Output place) {
    return cast(clip(of.inside(place), 0, of.size - 1), DType::i64);
  };
  Output sum;
  for (const Tap& y : taps(height, 1))
    for (const Tap& x : taps(width, 0)) {
      const Output row = (batch * height.size + pixel(height, y.place)) * width.size;
      const Output seen = height.seen(height.inside(y.place)) * width.seen(width.inside(x.place));
      const Output weight = expand_dims(y.weight * x.weight * seen, -1);
      const Output part = gather(rows, row + pixel(width, x.place)) * weight;
      sum = sum.defined() ? sum + part : part;
    }
  return {channels_first(sum)};
}

}  // namespace

std::vector<MappedOp> image_rows() {
  return {
      {"GridSample", "floor, clip, gather", grid_sample_row},
      {"Resize", "resize", resize_row},
      {"Upsample", "repeat", upsample_row},
  };
}

}  // namespace troupe
