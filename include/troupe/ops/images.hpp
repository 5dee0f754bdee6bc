// Images: other sizes, parts of them, colours, and random changes for training. Everything that
// troupe/ops.hpp says of its functions holds for these.
//
// Images are x [batch, height, width, channels], floats where nothing else is said. Random numbers
// are drawn for each image, keyed like random_uniform: by (seed, node name, training step,
// replica); the number of images must then be known while building.
#pragma once

#include <string_view>

#include "troupe/graph.hpp"

namespace troupe {

// ---- sizes and parts ----

enum class Interpolation : uint8_t {
  nearest,  // the pixel at floor(p + 0.5); at floor(p) where the grid is asymmetric
  bilinear  // between the four pixels around p, those at the border repeated beyond it
};
// p: where the middle of pixel i of N lies among n pixels.
enum class PixelGrid : uint8_t {
  half_pixel,     // at (i + 0.5) * n / N - 0.5: both images have the same edges
  align_corners,  // at i * (n - 1) / (N - 1): the first and the last pixels lie on each other
  asymmetric      // at i * n / N
};
struct ResizeOptions {
  Interpolation interpolation = Interpolation::bilinear;
  PixelGrid grid = PixelGrid::half_pixel;
};
// -> [batch, height, width, channels]. The nearest pixels may be of any dtype. No smoothing before
// images get smaller.
Output resize(Output x, int64_t height, int64_t width, ResizeOptions options = {},
              Origin at = Origin::here());
// Rows [top, top + height) and columns [left, left + width) of x, of any dtype: offsets [2], top
// and left, for all images, or [batch, 2], i32 or i64. Fails the step for a box that is not inside.
Output crop(Output x, Output offsets, int64_t height, int64_t width, Origin at = Origin::here());
// The same at any place with equal probability. The sizes of x must be known.
Output random_crop(Output x, int64_t height, int64_t width, int64_t seed = 0,
                   std::string_view name = "", Origin at = Origin::here());
// Left and right exchanged with probability 1/2; any dtype.
Output random_flip_left_right(Output x, int64_t seed = 0, std::string_view name = "",
                              Origin at = Origin::here());

// ---- colours ----

// (x - mean) / max(standard deviation, 1 / sqrt(n)), of the n numbers of each image.
Output per_image_standardization(Output x, Origin at = Origin::here());
// [..., 3] red, green and blue to hue, saturation and value, all in [0, 1] (Smith 1978), and back.
// A hue of 0 is red, 1/3 green, 2/3 blue; of greys it is 0.
Output rgb_to_hsv(Output x, Origin at = Origin::here());
Output hsv_to_rgb(Output x, Origin at = Origin::here());
// `factor` and `turn` are scalars, or [batch, 1, 1, 1], of x's dtype.
// (x - mean) * factor + mean, with the mean of each channel of each image.
Output adjust_contrast(Output x, Output factor, Origin at = Origin::here());
// x [..., 3] in [0, 1]: the saturation times `factor`, at most 1; the hue plus `turn`, where 1 is
// all around.
Output adjust_saturation(Output x, Output factor, Origin at = Origin::here());
Output adjust_hue(Output x, Output turn, Origin at = Origin::here());

struct ColourJitter {
  double brightness = 0;  // added: a number in [-brightness, brightness)
  double contrast = 0;    // a factor in [1 - contrast, 1 + contrast), as of saturation; at most 1
  double saturation = 0;
  double hue = 0;  // a turn in [-hue, hue); at most 0.5
};
// All four for each image of x [batch, height, width, 3] in [0, 1], in this order; cut off at 0
// and 1 after the contrast.
Output colour_jitter(Output x, ColourJitter jitter, int64_t seed = 0, std::string_view name = "",
                     Origin at = Origin::here());

}  // namespace troupe
