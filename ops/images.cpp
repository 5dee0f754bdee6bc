// The functions of troupe/ops/images.hpp that are made of other ops.
#include "troupe/ops/images.hpp"

#include <cmath>

#include "ops/elementwise.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// Throws: Error naming the caller's line for an x that is not images, or whose sizes are not known
// up to dimension `known`.
const Shape& checked_images(const Output& x, const char* what, Origin at, int known = 0) {
  const auto refuse = [&](const auto&... parts) {
    return Error(Errc::invalid_argument, what, " called at ", at.file, ":", at.line, ": ",
                 detail::concat(parts...));
  };
  if (!x.defined()) throw refuse("its images are an undefined Output; pass the result of an op");
  const Shape& shape = x.shape();
  if (shape.ndim() != 4) throw refuse("wants images [batch, height, width, channels], got ", shape);
  for (int d = 0; d < known; ++d)
    if (shape[d] < 0)
      throw refuse("draws for images whose ", known > 1 ? "sizes are" : "number is", " known, got ",
                   shape, "; reshape them");
  return shape;
}

// One number in [low, high) for each image.
Output draw(const Output& x, double low, double high, int64_t seed, std::string_view name,
            Origin at) {
  const Shape one{x.shape()[0], 1, 1, 1};
  return random_uniform(*x.graph, one, low, high, seed, x.dtype(), name, at);
}

Output channel(const Output& x, int64_t k, Origin at) {
  std::vector<int64_t> begin(static_cast<size_t>(x.shape().ndim())), size(begin.size(), -1);
  begin.back() = k;
  size.back() = 1;
  return slice(x, begin, size, at);
}

}  // namespace

Output random_crop(Output x, int64_t height, int64_t width, int64_t seed, Origin at) {
  const Shape& shape = checked_images(x, "random_crop", at, 3);
  if (height < 1 || width < 1 || height > shape[1] || width > shape[2])
    throw Error(Errc::invalid_argument, "random_crop called at ", at.file, ":", at.line,
                ": a part of ", height, " x ", width, " does not fit into the images ", shape);
  const auto offsets = [&](int64_t room, std::string_view name) {
    return random_int(*x.graph, {shape[0], 1}, 0, room + 1, seed, DType::i64, name, at);
  };
  return crop_images(
      x, concat({offsets(shape[1] - height, "row"), offsets(shape[2] - width, "column")}, 1, at),
      height, width, at);
}

Output random_flip_left_right(Output x, int64_t seed, Origin at) {
  const Shape& shape = checked_images(x, "random_flip_left_right", at, 1);
  const Output half = fill(*x.graph, {shape[0], 1, 1, 1}, 0.5, DType::f32, "half", at);
  const Output flipped = cast(bernoulli(half, seed, "flip", at), DType::boolean, at);
  return where(flipped, flip_left_right(x, at), x, at);
}

Output per_image_standardization(Output x, Origin at) {
  checked_images(x, "per_image_standardization", at);
  const ReduceOptions image{.axes = {1, 2, 3}, .keep_dims = true};
  const Output centred = subtract(x, reduce_mean(x, image, at), at);
  const Output deviation = sqrt(reduce_mean(square(centred, at), image, at), at);
  const Output ones = broadcast_like(constant_like(1, x, at), x, at);
  const Output least = rsqrt(reduce_sum(ones, image, at), at);
  return divide(centred, maximum(deviation, least, at), at);
}

Output adjust_brightness(Output x, Output delta, Origin at) { return add(x, delta, at); }

Output adjust_contrast(Output x, Output factor, Origin at) {
  checked_images(x, "adjust_contrast", at);
  const Output mean = reduce_mean(x, {.axes = {1, 2}, .keep_dims = true}, at);
  return add(multiply(subtract(x, mean, at), factor, at), mean, at);
}

Output adjust_saturation(Output x, Output factor, Origin at) {
  const Output hsv = rgb_to_hsv(x, at);
  const Output more = multiply(channel(hsv, 1, at), factor, at);
  const Output saturation = minimum(more, constant_like(1, more, at), at);
  return hsv_to_rgb(concat({channel(hsv, 0, at), saturation, channel(hsv, 2, at)}, -1, at), at);
}

Output adjust_hue(Output x, Output delta, Origin at) {
  const Output hsv = rgb_to_hsv(x, at);
  const Output turned = add(channel(hsv, 0, at), delta, at);
  return hsv_to_rgb(concat({turned, channel(hsv, 1, at), channel(hsv, 2, at)}, -1, at), at);
}

Output colour_jitter(Output x, ColourJitterOptions options, int64_t seed, Origin at) {
  checked_images(x, "colour_jitter", at, 1);
  for (const double one : {options.brightness, options.contrast, options.saturation, options.hue})
    if (!(one >= 0) || !std::isfinite(one))
      throw Error(Errc::invalid_argument, "colour_jitter called at ", at.file, ":", at.line,
                  ": wants options that are not negative, got ", one);
  const auto around = [&](double middle, double most, std::string_view name) {
    return draw(x, middle - most, middle + most, seed, name, at);
  };
  Output y = x;
  if (options.brightness > 0)
    y = adjust_brightness(y, around(0, options.brightness, "brightness"), at);
  if (options.contrast > 0) y = adjust_contrast(y, around(1, options.contrast, "contrast"), at);
  if (options.saturation > 0)
    y = adjust_saturation(y, around(1, options.saturation, "saturation"), at);
  if (options.hue > 0) y = adjust_hue(y, around(0, options.hue, "hue"), at);
  return y;
}

}  // namespace troupe
