// Where windows that slide over images stand: what convolutions and pools share of their
// attributes, sizes in each dimension, and how many images are a job.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "troupe/op.hpp"
#include "troupe/ops/convolutions.hpp"

namespace troupe {

inline constexpr int kSpatialMax = 3;  // depth, height, width

// One dimension: output i sees inputs i * stride - before + j * dilation for j in [0, window).
struct Sliding {
  int64_t input = 1, window = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // padding at the ends
  int64_t output = 1;

  struct Range {
    int64_t first, last;  // the last one is not part of it
    int64_t size() const { return last - first; }
  };
  int64_t start(int64_t i) const { return i * stride - before; }
  // Which j are on the image, for output i.
  Range inside(int64_t i) const {
    const int64_t from = start(i);
    const auto steps = [&](int64_t n) { return dilation == 1 ? n : (n - 1) / dilation + 1; };
    const int64_t first = from < 0 ? std::min(steps(-from), window) : 0;
    const int64_t last = from < input ? std::min(steps(input - from), window) : 0;
    return {first, std::max(first, last)};
  }
};

// All dimensions; the outer ones that images do not have are of size 1.
using Slidings = std::array<Sliding, kSpatialMax>;
inline int64_t inputs_of(const Slidings& s) { return s[0].input * s[1].input * s[2].input; }
inline int64_t outputs_of(const Slidings& s) { return s[0].output * s[1].output * s[2].output; }

// In or out. Only of others may the sizes be multiplied: beside a 0, any can be large.
inline bool has_no_pixels(const Slidings& s) {
  return std::any_of(s.begin(), s.end(),
                     [](const Sliding& d) { return d.input == 0 || d.output == 0; });
}

// A view of the options of a convolution or a pool. Lists are empty, of one number for all
// dimensions, or of one each.
struct WindowSpec {
  std::span<const int64_t> strides, dilations, before, after;
  Padding padding = Padding::valid;

  static int64_t of(std::span<const int64_t> list, size_t d, int64_t missing) {
    return list.empty() ? missing : list.size() == 1 ? list[0] : list[d];
  }
};

// Throws: Error from ctx unless the lists fit images of `dims` dimensions.
void check_windows(const InferContext& ctx, const WindowSpec& spec, int dims);

// Dimension d of an image, with both sizes known. `output` is -1 where a window does not fit on the
// image with its padding, or where sizes are past 64 bits.
Sliding slide(int64_t input, int64_t window, const WindowSpec& spec, int d);

// Attributes "padding", "front" and "back" ("after" is a word of the text form).
void add_padding_attrs(std::vector<AttrSpec>& specs, Padding padding);
void add_padding_attrs(Attrs& attrs, Padding padding, const std::vector<int64_t>& before,
                       const std::vector<int64_t>& after);
// Of a node that may not have been checked. Throws: Error from InferContext.
Padding padding_of(const InferContext& ctx);
Padding padding_of(const Node& node);  // of one that has been

// ---- for loops, compiled for each instruction set ----

// A window at one of its places.
struct Place {
  int64_t image;
  Sliding::Range depth, height, width;  // of the window, as far as it is on the image
  const Slidings* at;
  int64_t front, top, left;  // where it begins on the image

  int64_t size() const { return depth.size() * height.size() * width.size(); }
  // Calls f(number of the pixel in all images, place in the window in each dimension) for the
  // pixels that are on the image, in row-major order.
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

// Calls f(number of the output pixel in all images, place of the window) for images [first, last),
// in row-major order.
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

// Calls f(first channel, number of channels) for all of them in blocks. The number is a constant
// but for the last block: the compiler makes loops of vectors then, for which fewer channels would
// be too few.
template <class F>
void for_each_block(int64_t channels, F f) {
  int64_t c = 0;
  for (; c + kBlock <= channels; c += kBlock) f(c, std::integral_constant<int, kBlock>());
  if (c < channels) f(c, static_cast<int>(channels - c));
}

// ---- jobs ----

// How many images are a job, of which one costs `cost`: `least` of them, or more for a cost of at
// least `job_min`; all of them if there would be just one job. By the sizes alone.
int64_t images_of_job(int64_t batch, double cost, int64_t least, double job_min);

// Calls f(first image, the one behind the last) for all images, in jobs.
template <class F>
void in_images(const KernelContext& ctx, int64_t batch, int64_t images, const F& f) {
  ctx.parallel((batch + images - 1) / images,
               [&](int64_t job) { f(job * images, std::min(batch, (job + 1) * images)); });
}

}  // namespace troupe
