// Images: sizes, cuts and colours, for models and for the augmentation of their inputs. Images are
// NHWC: [batch, height, width, channels].
//
// What is drawn at random is keyed like all random numbers (troupe/ops.hpp), once for each image.
#pragma once

#include "troupe/graph.hpp"

namespace troupe {

enum class ResizeMethod : uint8_t {
  nearest,   // any dtype
  bilinear,  // floats: between the four nearest, the border repeated outside
};
// Where output i of n lies among m inputs.
enum class ResizeSampling : uint8_t {
  half_pixel,     // pixels are areas: (i + 0.5) * m / n - 0.5
  align_corners,  // the corners stay where they are: i * (m - 1) / (n - 1)
  asymmetric,     // i * m / n
};
struct ResizeOptions {
  ResizeMethod method = ResizeMethod::bilinear;
  ResizeSampling sampling = ResizeSampling::half_pixel;
};
// x [b, h, w, c] -> [b, height, width, c]. Nearest takes the input below, but with align_corners
// the nearer one (the higher of two), and with half_pixel the area that the middle of i is in.
Output resize(Output x, int64_t height, int64_t width, ResizeOptions options = {},
              Origin at = Origin::here());
// dL/dx of y = resize(x), floats, from dy = dL/dy. Of x_like only the shape is used.
Output resize_gradient(Output dy, Output x_like, ResizeOptions options = {},
                       Origin at = Origin::here());

// Of each image the part from offsets [b, 2], i32 or i64: row and column of its first pixel.
// x [b, h, w, c] -> [b, height, width, c]. A part that is not whole in the image fails the step.
Output crop_images(Output x, Output offsets, int64_t height, int64_t width,
                   Origin at = Origin::here());
// Zeros like x with dy, floats, where that part was.
Output crop_images_gradient(Output dy, Output offsets, Output x_like, Origin at = Origin::here());
// A part that begins anywhere; batch, height and width of x must be known.
Output random_crop(Output x, int64_t height, int64_t width, int64_t seed = 0,
                   Origin at = Origin::here());
// flip_left_right (troupe/ops/arrays.hpp) of each image with probability 1/2; the batch must be
// known.
Output random_flip_left_right(Output x, int64_t seed = 0, Origin at = Origin::here());

// (x - mean) / max(standard deviation, 1 / sqrt(n)), of the n numbers of each image; floats.
Output per_image_standardization(Output x, Origin at = Origin::here());

// ---- colours: floats, usually in [0, 1]; results are not cut off ----
// `delta` and `factor` broadcast to the images: scalars, or [b, 1, 1, 1].

Output adjust_brightness(Output x, Output delta, Origin at = Origin::here());  // x + delta
// Each channel's distance from its mean over the image, times factor.
Output adjust_contrast(Output x, Output factor, Origin at = Origin::here());
// The saturation times factor, at most 1; [..., 3] of red, green and blue.
Output adjust_saturation(Output x, Output factor, Origin at = Origin::here());
// The hue turned by delta: 1 is a whole turn.
Output adjust_hue(Output x, Output delta, Origin at = Origin::here());
// [..., 3] of red, green and blue in [0, 1] to hue in [0, 1), saturation and value, and back
// (Smith, Color gamut transform pairs, SIGGRAPH 1978). The hue of grey is 0.
Output rgb_to_hsv(Output x, Origin at = Origin::here());
Output hsv_to_rgb(Output x, Origin at = Origin::here());

struct ColourJitterOptions {
  double brightness = 0;  // delta in [-brightness, brightness)
  double contrast = 0;    // factor in [1 - contrast, 1 + contrast)
  double saturation = 0;  // the same
  double hue = 0;         // delta in [-hue, hue)
};
// Brightness, contrast, saturation and hue, one after the other, each drawn for each image; what is
// 0 is left out. The batch must be known.
Output colour_jitter(Output x, ColourJitterOptions options, int64_t seed = 0,
                     Origin at = Origin::here());

}  // namespace troupe
