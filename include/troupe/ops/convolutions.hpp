// Convolutions, pools and norms of images of one, two or three dimensions: x [batch, width,
// channels], [batch, height, width, channels] or [batch, depth, height, width, channels]. The
// conventions of troupe/ops.hpp hold for these functions. For floats.
//
// Lists of numbers have one entry for each dimension of the images, outermost first, or a single
// entry for all of them.
#pragma once

#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// The positions of a window of size k on images of size n; with dilation d it spans (k - 1) * d +
// 1.
enum class Padding : uint8_t {
  valid,  // floor((n - span) / stride) + 1 positions, entirely on the image
  same,   // ceil(n / stride) positions; the padding is split evenly, an odd one at the end
  given   // like valid, on images padded by `before` and `after` at their ends
};

// ---- convolutions ----
// Filters are [width, in / groups, out], preceded by height and depth for images that have them.

struct ConvolutionOptions {
  std::vector<int64_t> strides = {};    // {}: 1
  std::vector<int64_t> dilations = {};  // {}: 1; the distance of a filter's pixels on the image
  // Channels in and out are cut into this many parts, each with a convolution of its own.
  int64_t groups = 1;
  Padding padding = Padding::same;               // with zeros
  std::vector<int64_t> before = {}, after = {};  // {}: 0; with Padding::given alone
};
// y[b, i, o] = the sum of x[b, i * stride - before + j * dilation, c] * filter[j, c, o] over all j
// and the c of o's group; i and j have as many dimensions as the images. conv2d() is the same with
// fewer options. conv1d and conv3d refuse images of other dimensions.
Output convolution(Output x, Output filter, ConvolutionOptions options = {},
                   Origin at = Origin::here());
Output conv1d(Output x, Output filter, ConvolutionOptions options = {}, Origin at = Origin::here());
Output conv3d(Output x, Output filter, ConvolutionOptions options = {}, Origin at = Origin::here());
// A convolution of each channel by itself: filter [..., c, m] -> y [..., c * m], m channels from
// each of x's c, which must be known while building; leave `groups` at 1.
Output depthwise_convolution(Output x, Output filter, ConvolutionOptions options = {},
                             Origin at = Origin::here());
// dL/dx and dL/dfilter of y = convolution(x, filter), from dy = dL/dy. Only the shapes of x_like
// and filter_like are used.
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
  bool count_padding = false;  // for average_pool: padding counts as zeros; else it does not count
};
// The maximum of each window; NaN if there is one. Padding never wins.
Output max_pool(Output x, PoolWindow window = {}, Origin at = Origin::here());
// dL/dx of y = max_pool(x), from dy = dL/dy, which goes to the first maximum of each window.
Output max_pool_gradient(Output dy, Output x, PoolWindow window = {}, Origin at = Origin::here());
// The elements of `values`, which has x's shape, at the positions of the maxima of max_pool(x).
Output max_pool_select(Output values, Output x, PoolWindow window = {}, Origin at = Origin::here());
// The mean of each window.
Output average_pool(Output x, PoolWindow window = {}, Origin at = Origin::here());
// dL/dx of y = average_pool(x), from dy = dL/dy. Only the shape of x_like is used.
Output average_pool_gradient(Output dy, Output x_like, PoolWindow window = {},
                             Origin at = Origin::here());
// Pools over whole images: x [b, ..., c] -> [b, c]. The mean; the maximum, whose gradient all equal
// maxima share.
Output global_average_pool(Output x, Origin at = Origin::here());
Output global_max_pool(Output x, Origin at = Origin::here());

// ---- norms ----

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, of each channel of each image: x [b, ...,
// c], gamma and beta [c] (Ulyanov et al. 2016). The variance is the mean of squared distances.
Output instance_norm(Output x, Output gamma, Output beta, double epsilon = 1e-5,
                     Origin at = Origin::here());

}  // namespace troupe
