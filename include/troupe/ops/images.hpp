// Images: resizing, crops, colours, and random changes for training. The conventions of
// troupe/ops.hpp hold for these functions.
//
// Images are x [batch, height, width, channels], floats unless said otherwise. Random numbers are
// drawn for each image, keyed like random_uniform: by (seed, node name, training step, replica);
// the number of images must then be known while building.
#pragma once

#include <string_view>

#include "troupe/graph.hpp"

namespace troupe {

// ---- sizes and parts ----

enum class Interpolation : uint8_t {
  nearest,  // the pixel at floor(p + 0.5); at floor(p) for the asymmetric grid
  bilinear  // between the four pixels around p; pixels of the border are repeated beyond it
};
// p: the position of the middle of pixel i of N among n pixels.
enum class PixelGrid : uint8_t {
  half_pixel,     // at (i + 0.5) * n / N - 0.5: both images have the same edges
  align_corners,  // at i * (n - 1) / (N - 1): the first and the last pixels coincide
  asymmetric      // at i * n / N
};
struct ResizeOptions {
  Interpolation interpolation = Interpolation::bilinear;
  PixelGrid grid = PixelGrid::half_pixel;
};
// -> [batch, height, width, channels]. `nearest` works for any dtype. Images are not smoothed
// before they are shrunk.
Output resize(Output x, int64_t height, int64_t width, ResizeOptions options = {},
              Origin at = Origin::here());
// Rows [top, top + height) and columns [left, left + width) of x, of any dtype: offsets [2], top
// and left, for all images, or [batch, 2], i32 or i64. Fails the step for a box that is not inside
// x.
Output crop(Output x, Output offsets, int64_t height, int64_t width, Origin at = Origin::here());
// The same at a random position, all positions equally likely. The sizes of x must be known.
Output random_crop(Output x, int64_t height, int64_t width, int64_t seed = 0,
                   std::string_view name = "", Origin at = Origin::here());
// Exchanges left and right with probability 1/2; any dtype.
Output random_flip_left_right(Output x, int64_t seed = 0, std::string_view name = "",
                              Origin at = Origin::here());

// ---- colours ----

// (x - mean) / max(standard deviation, 1 / sqrt(n)), over the n numbers of each image.
Output per_image_standardization(Output x, Origin at = Origin::here());
// [..., 3] red, green and blue to hue, saturation and value, all in [0, 1] (Smith 1978), and back.
// Hue 0 is red, 1/3 green, 2/3 blue; greys have hue 0.
Output rgb_to_hsv(Output x, Origin at = Origin::here());
Output hsv_to_rgb(Output x, Origin at = Origin::here());
// `factor` and `turn` are scalars, or [batch, 1, 1, 1], of x's dtype.
// (x - mean) * factor + mean, with the mean of each channel of each image.
Output adjust_contrast(Output x, Output factor, Origin at = Origin::here());
// x [..., 3] in [0, 1]: multiplies the saturation by `factor`, limited to 1; adds `turn` to the
// hue, where 1 is a full turn.
Output adjust_saturation(Output x, Output factor, Origin at = Origin::here());
Output adjust_hue(Output x, Output turn, Origin at = Origin::here());

struct ColourJitter {
  double brightness = 0;  // added: a number in [-brightness, brightness)
  double contrast = 0;    // a factor in [1 - contrast, 1 + contrast), as for saturation; at most 1
  double saturation = 0;
  double hue = 0;  // a turn in [-hue, hue); at most 0.5
};
// Applies all four, in this order, to each image of x [batch, height, width, 3] in [0, 1]; clamps
// to [0, 1] after the contrast.
Output colour_jitter(Output x, ColourJitter jitter, int64_t seed = 0, std::string_view name = "",
                     Origin at = Origin::here());

}  // namespace troupe
