// Convolutions, pools and norms of images of one, two or three dimensions: x [batch, width,
// channels], [batch, height, width, channels] or [batch, depth, height, width, channels].
// Everything that troupe/ops.hpp says of its functions holds for these. Floats.
//
// Lists of numbers have one for each dimension of the images, outermost first, or a single one for
// all of them.
#pragma once

#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// Where a window of size k stands on images of size n; with dilation d it spans (k - 1) * d + 1.
enum class Padding : uint8_t {
  valid,  // at floor((n - span) / stride) + 1 places, all of it on the image
  same,   // at ceil(n / stride) places; the padding is split evenly, the odd one last
  given   // like valid, on images with `before` and `after` at their ends
};

// ---- convolutions ----
// Filters are [width, in / groups, out], with height and depth before it for images that have them.

struct ConvolutionOptions {
  std::vector<int64_t> strides = {};    // {}: 1
  std::vector<int64_t> dilations = {};  // {}: 1; the distance of a filter's pixels on the image
  // Channels in and out are cut into that many parts, each with a convolution of its own.
  int64_t groups = 1;
  Padding padding = Padding::same;               // with zeros
  std::vector<int64_t> before = {}, after = {};  // {}: 0; with Padding::given alone
};
// y[b, i, o] = the sum of x[b, i * stride - before + j * dilation, c] * filter[j, c, o] over all j
// and the c of o's group; i and j have as many dimensions as the images. conv2d() is the same with
// fewer options. conv1d and conv3d refuse other images.
Output convolution(Output x, Output filter, ConvolutionOptions options = {},
                   Origin at = Origin::here());
Output conv1d(Output x, Output filter, ConvolutionOptions options = {}, Origin at = Origin::here());
Output conv3d(Output x, Output filter, ConvolutionOptions options = {}, Origin at = Origin::here());
// Each channel by itself: filter [..., c, m] -> y [..., c * m], m channels from each of x's c,
// which must be known while building; `groups` is left 1.
Output depthwise_convolution(Output x, Output filter, ConvolutionOptions options = {},
                             Origin at = Origin::here());
// dL/dx and dL/dfilter of y = convolution(x, filter), from dy = dL/dy. Of x_like and filter_like
// only the shape is used.
Output convolution_input_gradient(Output dy, Output filter, Output x_like,
                                  ConvolutionOptions options = {}, Origin at = Origin::here());
Output convolution_filter_gradient(Output dy, Output x, Output filter_like,
                                   ConvolutionOptions options = {}, Origin at = Origin::here());
// The transpose of a convolution, from its y back to the size of its x (Zeiler et al. 2010): filter
// [..., out / groups, in]. Each dimension grows from n to n * stride with Padding::same, else to
// (n - 1) * stride + span + output_padding - before - after, where output_padding, {} for 0, is
// below the stride.
Output convolution_transpose(Output x, Output filter, ConvolutionOptions options = {},
                             std::vector<int64_t> output_padding = {}, Origin at = Origin::here());

// ---- pools ----
// x [b, ..., c] -> [b, ..., c].

struct PoolWindow {
  std::vector<int64_t> size = {2};
  std::vector<int64_t> strides = {};  // {}: size
  Padding padding = Padding::valid;
  // {}: 0; with Padding::given alone, and smaller than the window.
  std::vector<int64_t> before = {}, after = {};
  bool count_padding = false;  // of average_pool: padding counts as zeros, else not at all
};
// The greatest of each window; NaN if there is one. Padding never wins.
Output max_pool(Output x, PoolWindow window = {}, Origin at = Origin::here());
// dL/dx of y = max_pool(x), from dy = dL/dy; all of it goes to the first maximum of a window.
Output max_pool_gradient(Output dy, Output x, PoolWindow window = {}, Origin at = Origin::here());
// The elements of `values`, which has x's shape, where max_pool(x) finds its maxima.
Output max_pool_select(Output values, Output x, PoolWindow window = {}, Origin at = Origin::here());
// The mean of each window.
Output average_pool(Output x, PoolWindow window = {}, Origin at = Origin::here());
// dL/dx of y = average_pool(x), from dy = dL/dy. Of x_like only the shape is used.
Output average_pool_gradient(Output dy, Output x_like, PoolWindow window = {},
                             Origin at = Origin::here());
// Of whole images: x [b, ..., c] -> [b, c]. The mean; the greatest, whose gradient is shared by all
// that are greatest.
Output global_average_pool(Output x, Origin at = Origin::here());
Output global_max_pool(Output x, Origin at = Origin::here());

// ---- norms ----

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, of each channel of each image: x [b, ...,
// c], gamma and beta [c] (Ulyanov et al. 2016). The variance is the mean of squared distances.
Output instance_norm(Output x, Output gamma, Output beta, double epsilon = 1e-5,
                     Origin at = Origin::here());

}  // namespace troupe
