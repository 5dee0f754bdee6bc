// Sliding windows: shared by convolutions and pools: attributes, sizes and positions in each
// dimension, and the number of images in a job.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "troupe/op.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {

inline constexpr int kSpatialMax = 3;  // depth, height, width

// One dimension: output i sees inputs i * stride - before + j * dilation for j in [0, window).
struct Sliding {
  int64_t input = 1, window = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // padding at the ends
  int64_t output = 1;

  struct Range {
    int64_t first, last;  // `last` is exclusive
    int64_t size() const { return last - first; }
  };
  int64_t start(int64_t i) const { return i * stride - before; }
  // The range of j inside the image, for output i.
  Range inside(int64_t i) const {
    const int64_t from = start(i);
    const auto steps = [&](int64_t n) { return dilation == 1 ? n : (n - 1) / dilation + 1; };
    const int64_t first = from < 0 ? std::min(steps(-from), window) : 0;
    const int64_t last = from < input ? std::min(steps(input - from), window) : 0;
    return {first, std::max(first, last)};
  }
};

// All dimensions; the missing outer ones have size 1.
using Slidings = std::array<Sliding, kSpatialMax>;
inline int64_t inputs_of(const Slidings& s) { return s[0].input * s[1].input * s[2].input; }
inline int64_t outputs_of(const Slidings& s) { return s[0].output * s[1].output * s[2].output; }

// True if input or output has no pixels. Otherwise the sizes may be multiplied; beside a 0, other
// sizes may be so large that the product overflows.
inline bool has_no_pixels(const Slidings& s) {
  return std::any_of(s.begin(), s.end(),
                     [](const Sliding& d) { return d.input == 0 || d.output == 0; });
}

// A view of the options of a convolution or a pool. Each list is empty, or has one number for all
// dimensions, or one for each.
struct WindowSpec {
  std::span<const int64_t> strides, dilations, before, after;
  Padding padding = Padding::valid;

  static int64_t of(std::span<const int64_t> list, size_t d, int64_t missing) {
    return list.empty() ? missing : list.size() == 1 ? list[0] : list[d];
  }
};

// Throws: Error from ctx unless the lists fit images of `dims` dimensions.
void check_windows(const InferContext& ctx, const WindowSpec& spec, int dims);

// Dimension d of an image, with both sizes known. `output` is -1 if a window does not fit on the
// image with its padding, or if sizes exceed 64 bits.
Sliding slide(int64_t input, int64_t window, const WindowSpec& spec, int d);

// Attributes "padding", "front" and "back" ("after" is a word of the text form).
void add_padding_attrs(std::vector<AttrSpec>& specs, Padding padding);
void add_padding_attrs(Attrs& attrs, Padding padding, const std::vector<int64_t>& before,
                       const std::vector<int64_t>& after);
// The padding of a node that may not have been checked. Throws: Error from InferContext.
Padding padding_of(const InferContext& ctx);
Padding padding_of(const Node& node);  // of a checked node

// ---- for loops, compiled for each instruction set ----

// A window at one of its positions.
struct Place {
  int64_t image;
  Sliding::Range depth, height, width;  // of the window, as far as it is inside the image
  const Slidings* at;
  int64_t front, top, left;  // its first pixel on the image

  int64_t size() const { return depth.size() * height.size() * width.size(); }
  // Calls f(number of the pixel in all images, position in the window in each dimension) for the
  // pixels inside the image, in row-major order.
  template <class F>
  void for_each(F f) const {
    const Sliding &ds = (*at)[0], &hs = (*at)[1], &ws = (*at)[2];
    for (int64_t kd = depth.first; kd < depth.last; ++kd)
      for (int64_t kh = height.first; kh < height.last; ++kh) {
        const int64_t plane = image * ds.input + front + kd * ds.dilation;
        const int64_t row = (plane * hs.input + top + kh * hs.dilation) * ws.input + left;
        for (int64_t kw = width.first; kw < width.last; ++kw) f(row + kw * ws.dilation, kd, kh, kw);
      }
  }
};

// Calls f(number of the output pixel in all images, position of the window) for images [first,
// last), in row-major order.
template <class F>
void for_each_place(const Slidings& at, int64_t first, int64_t last, F f) {
  const Sliding depth = at[0], height = at[1], width = at[2];
  Place place{.at = &at};
  int64_t pixel = first * outputs_of(at);
  for (int64_t b = first; b < last; ++b) {
    place.image = b;
    for (int64_t d = 0; d < depth.output; ++d) {
      place.depth = depth.inside(d);
      place.front = depth.start(d);
      for (int64_t h = 0; h < height.output; ++h) {
        place.height = height.inside(h);
        place.top = height.start(h);
        for (int64_t w = 0; w < width.output; ++w, ++pixel) {
          place.width = width.inside(w);
          place.left = width.start(w);
          f(pixel, place);
        }
      }
    }
  }
}

constexpr int kBlock = 32;  // channels

// Calls f(first channel, number of channels) for all channels in blocks. The number is a
// compile-time constant except in the last block, so that the compiler makes vector loops for it.
template <class F>
void for_each_block(int64_t channels, F f) {
  int64_t c = 0;
  for (; c + kBlock <= channels; c += kBlock) f(c, std::integral_constant<int, kBlock>());
  if (c < channels) f(c, static_cast<int>(channels - c));
}

// ---- jobs ----

// The number of images in a job, where one image costs `cost`: `least` images, or more to reach a
// cost of `job_min`; all images if there would be only one job. Depends on the sizes alone.
int64_t images_of_job(int64_t batch, double cost, int64_t least, double job_min);

// Calls f(first image, end image) for all images, in jobs.
template <class F>
void in_images(const KernelContext& ctx, int64_t batch, int64_t images, const F& f) {
  ctx.parallel((batch + images - 1) / images,
               [&](int64_t job) { f(job * images, std::min(batch, (job + 1) * images)); });
}

}  // namespace troupe
