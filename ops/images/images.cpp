// The functions of troupe/ops/networks.hpp that are composed of other ops: colours and random
// changes.
#include "troupe/ops/networks.hpp"

#include <cmath>

#include "ops/elementwise/composition.hpp"
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

void require_images(const char* function, Origin at, Output x) {
  require_defined(function, at, {x});
  if (x.shape().ndim() != 4)
    throw refused(function, at, "wants images [batch, height, width, channels], got ", x.shape());
}

// Throws unless x is [..., 3] and floating.
void require_colours(const char* function, Origin at, Output x) {
  require_defined(function, at, {x});
  const int last = x.shape().ndim() - 1;
  if (last < 0 || !may_equal(x.shape()[last], 3))
    throw refused(function, at, "wants three colours [..., 3], got ", x.shape());
  if (!is_floating(x.dtype()))
    throw refused(function, at, "wants f32 or f64 in [0, 1], got ", x.dtype());
}

// The shape of one number for each image.
Shape one_each(const char* function, Origin at, Output x) {
  if (x.shape()[0] < 0)
    throw refused(function, at, "draws for each image, so their number must be known, got ",
                  x.shape());
  return {x.shape()[0], 1, 1, 1};
}

Output three(Output like, double r, double g, double b) {
  const Tensor numbers = Tensor::of<double>({r, g, b}, {3});
  const Output row = constant(*like.graph, numbers);
  return like.dtype() == DType::f64 ? row : cast(row, like.dtype());
}

std::string_view or_else(std::string_view name, std::string_view otherwise) {
  return name.empty() ? otherwise : name;
}

// A random number in [middle - reach, middle + reach) for each image.
Output draw(Output x, const Shape& shape, double middle, double reach, int64_t seed) {
  return random_uniform(*x.graph, shape, middle - reach, middle + reach, seed, x.dtype());
}

}  // namespace

Output random_crop(Output x, int64_t height, int64_t width, int64_t seed, std::string_view name,
                   Origin at) {
  require_images("random_crop", at, x);
  const Shape& shape = x.shape();
  for (int d = 0; d < 3; ++d)
    if (shape[d] < 0)
      throw refused("random_crop", at, "wants sizes that are known while building, got ", shape);
  if (height < 0 || width < 0 || height > shape[1] || width > shape[2])
    throw refused("random_crop", at, "cuts ", height, " rows and ", width, " columns out of ",
                  shape, ", which has fewer");
  const auto scope =
      x.graph->scope({.name = std::string(or_else(name, "random_crop")), .origin = at});
  const Shape one{shape[0], 1};
  const Output top = random_int(*x.graph, one, 0, shape[1] - height + 1, seed);
  const Output left = random_int(*x.graph, one, 0, shape[2] - width + 1, seed);
  return crop(x, concat({top, left}, 1), height, width);
}

Output random_flip_left_right(Output x, int64_t seed, std::string_view name, Origin at) {
  require_images("random_flip_left_right", at, x);
  const Shape each = one_each("random_flip_left_right", at, x);
  const auto scope =
      x.graph->scope({.name = std::string(or_else(name, "random_flip_left_right")), .origin = at});
  const Output chance = random_uniform(*x.graph, each, 0, 1, seed);
  return where(less(chance, constant_like(0.5, chance)), flip_left_right(x), x);
}

Output per_image_standardization(Output x, Origin at) {
  require_images("per_image_standardization", at, x);
  const auto scope = x.graph->scope({.name = "per_image_standardization", .origin = at});
  const Moments m = moments(x, {.axes = {1, 2, 3}, .keep_dims = true});
  // The number of pixels may be known only in the step.
  const Output n = reduce_prod(cast(slice(shape_of(x), {1}, {3}), x.dtype()));
  return (x - m.mean) / maximum(sqrt(m.variance), rsqrt(n));
}

// With v = the greatest and m = the least colour: the saturation is (v - m) / v. The hue is the
// position of the greatest colour (0, 1/3 or 2/3), plus the difference of the other two divided by
// 6 (v - m).
Output rgb_to_hsv(Output x, Origin at) {
  require_colours("rgb_to_hsv", at, x);
  const auto scope = x.graph->scope({.name = "rgb_to_hsv", .origin = at});
  const std::vector<Output> rgb = split(x, 3, -1);
  const Output r = rgb[0], g = rgb[1], b = rgb[2];
  const Output zero = constant_like(0, r), one = constant_like(1, r);
  const Output v = maximum(maximum(r, g), b), range = v - minimum(minimum(r, g), b);
  const Output divisor = where(greater(range, zero), range, one);
  const Output cool = where(equal(v, g), (b - r) / divisor + 2, (r - g) / divisor + 4);
  const Output hue = where(equal(v, r), (g - b) / divisor, cool) / 6;
  const Output turned = where(less(hue, zero), hue + 1, hue);
  return concat({turned, range / where(greater(v, zero), v, one), v}, -1);
}

// Each colour is v * (1 - s * (1 - part)), where `part` is a trapezium over the hue.
Output hsv_to_rgb(Output x, Origin at) {
  require_colours("hsv_to_rgb", at, x);
  const auto scope = x.graph->scope({.name = "hsv_to_rgb", .origin = at});
  const std::vector<Output> hsv = split(x, 3, -1);
  const Output distance = abs(hsv[0] * 6 - three(x, 3, 2, 4));
  const Output part = clip(distance * three(x, 1, -1, -1) + three(x, -1, 2, 2), 0, 1);
  return hsv[2] * (1 - hsv[1] * (1 - part));
}

Output adjust_contrast(Output x, Output factor, Origin at) {
  require_images("adjust_contrast", at, x);
  require_defined("adjust_contrast", at, {factor});
  const auto scope = x.graph->scope({.name = "adjust_contrast", .origin = at});
  const Output mean = reduce_mean(x, {.axes = {1, 2}, .keep_dims = true});
  return (x - mean) * factor + mean;
}

Output adjust_saturation(Output x, Output factor, Origin at) {
  require_colours("adjust_saturation", at, x);
  require_defined("adjust_saturation", at, {factor});
  const auto scope = x.graph->scope({.name = "adjust_saturation", .origin = at});
  const std::vector<Output> hsv = split(rgb_to_hsv(x, at), 3, -1);
  return hsv_to_rgb(concat({hsv[0], clip(hsv[1] * factor, 0, 1), hsv[2]}, -1), at);
}

Output adjust_hue(Output x, Output turn, Origin at) {
  require_colours("adjust_hue", at, x);
  require_defined("adjust_hue", at, {turn});
  const auto scope = x.graph->scope({.name = "adjust_hue", .origin = at});
  const std::vector<Output> hsv = split(rgb_to_hsv(x, at), 3, -1);
  const Output hue = hsv[0] + turn;
  return hsv_to_rgb(concat({hue - floor(hue), hsv[1], hsv[2]}, -1), at);
}

Output colour_jitter(Output x, ColourJitter jitter, int64_t seed, std::string_view name,
                     Origin at) {
  require_images("colour_jitter", at, x);
  require_colours("colour_jitter", at, x);
  const auto in = [](double value, double most) { return value >= 0 && value <= most; };
  if (!in(jitter.brightness, 1) || !in(jitter.contrast, 1) || !in(jitter.saturation, 1) ||
      !in(jitter.hue, 0.5))
    throw refused("colour_jitter", at,
                  "wants brightness, contrast and saturation in [0, 1] and hue in [0, 0.5], got ",
                  jitter.brightness, ", ", jitter.contrast, ", ", jitter.saturation, " and ",
                  jitter.hue);
  const Shape each = one_each("colour_jitter", at, x);
  const auto scope =
      x.graph->scope({.name = std::string(or_else(name, "colour_jitter")), .origin = at});
  if (jitter.brightness > 0) x = x + draw(x, each, 0, jitter.brightness, seed);
  if (jitter.contrast > 0) x = adjust_contrast(x, draw(x, each, 1, jitter.contrast, seed), at);
  x = clip(x, 0, 1);
  if (jitter.saturation > 0)
    x = adjust_saturation(x, draw(x, each, 1, jitter.saturation, seed), at);
  if (jitter.hue > 0) x = adjust_hue(x, draw(x, each, 0, jitter.hue, seed), at);
  return x;
}

}  // namespace troupe
