// Layers of networks besides those of troupe/ops.hpp: embeddings, sparse products, normalisations.
// The conventions of troupe/ops.hpp hold for these functions. Channels are the last dimension.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/ops/arrays.hpp"

namespace troupe {

// ---- embeddings and sparse matrices ----

// How the rows of one group are combined: sum, mean, or sum / sqrt(number of rows).
enum class Combiner : uint8_t { none, sum, mean, sqrtn };
// Rows of `table` [rows, ...] by ids [i...], i32 or i64 in [0, rows) -> [i..., ...]; combined over
// the last dimension of ids if there is a combiner. For no rows, mean and sqrtn give NaN.
Output embedding_lookup(Output table, Output ids, Combiner combiner = Combiner::none,
                        Origin at = Origin::here());
// The product of a sparse matrix of known `shape` [m, k], given by its elements, and a matrix b [k,
// n] -> [m, n]; with `transpose`, of its transpose and b [m, n] -> [k, n]. Element values[e] stands
// at indices[e, 0], indices[e, 1], i32 or i64; equal places add up. For numbers except u8.
Output sparse_dense_matmul(Output indices, Output values, Output b, Shape shape,
                           bool transpose = false, Origin at = Origin::here());

// ---- normalisations ----
// For floats. gamma and beta are [c]. Variances are the mean of squared distances (not n - 1).

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, over the last dimension: x [..., c] (Ba et
// al. 2016).
Output layer_norm(Output x, Output gamma, Output beta, double epsilon = 1e-5,
                  Origin at = Origin::here());
// x / sqrt(mean of x^2 + epsilon) * gamma, over the last dimension (Zhang and Sennrich 2019).
Output rms_norm(Output x, Output gamma, double epsilon = 1e-6, Origin at = Origin::here());
// The formula of layer_norm for each channel, over all other dimensions: x [..., c], as [n, c] or
// NHWC (Ioffe and Szegedy 2015). For training; the program keeps running averages of mean and
// variance.
struct BatchNorm {
  Output y, mean, variance;  // [..., c], [c], [c]
};
BatchNorm batch_norm(Output x, Output gamma, Output beta, double epsilon = 1e-5,
                     Origin at = Origin::here());
// y for a given mean and variance.
Output batch_norm_inference(Output x, Output gamma, Output beta, Output mean, Output variance,
                            double epsilon = 1e-5, Origin at = Origin::here());
// The formula for `groups` groups of channels, each over all dimensions between the first and the
// last: x [n, ..., c] (Wu and He 2018); with as many groups as channels it is an instance norm.
Output group_norm(Output x, Output gamma, Output beta, int64_t groups, double epsilon = 1e-5,
                  Origin at = Origin::here());
// x / (bias + alpha * s)^beta with s the sum of x^2 over the channels j - radius to j + radius
// (Krizhevsky et al. 2012; parameters as in TensorFlow).
struct LocalResponseNormOptions {
  int64_t radius = 5;
  double bias = 1, alpha = 1, beta = 0.5;
};
Output local_response_norm(Output x, LocalResponseNormOptions options = {},
                           Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// Convolutions, pools and norms of images of one, two or three dimensions: x [batch, width,
// channels], [batch, height, width, channels] or [batch, depth, height, width, channels]. The
// conventions of troupe/ops.hpp hold for these functions. For floats.
//
// Lists of numbers have one entry for each dimension of the images, outermost first, or a single
// entry for all of them.

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
// The mean of each window.
Output average_pool(Output x, PoolWindow window = {}, Origin at = Origin::here());
// Pools over whole images: x [b, ..., c] -> [b, c]. The mean; the maximum, whose gradient all equal
// maxima share.
Output global_average_pool(Output x, Origin at = Origin::here());
Output global_max_pool(Output x, Origin at = Origin::here());

// ---- norms ----

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, of each channel of each image: x [b, ...,
// c], gamma and beta [c] (Ulyanov et al. 2016). The variance is the mean of squared distances.
Output instance_norm(Output x, Output gamma, Output beta, double epsilon = 1e-5,
                     Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// Images: resizing, crops, colours, and random changes for training. The conventions of
// troupe/ops.hpp hold for these functions.
//
// Images are x [batch, height, width, channels], floats unless said otherwise. Random numbers are
// drawn for each image, keyed like random_uniform: by (seed, node name, training step, replica);
// the number of images must then be known while building.

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

// ----------------------------------------------------------------------------------------------
// Layers over sequences: recurrent ones and attention. The conventions of troupe/ops.hpp hold for
// these functions. For floats, except lengths and masks. Sequences are [time, batch, ...]. Each row
// of a batch has all time steps or, with `lengths` [batch], i32 or i64 in [0, time], the first
// ones; later steps are not read, and results are 0 there. With `reverse`, rows are read from their
// last step to their first one; results stay in place.

// ---- long short-term memory ----
//   i = sigmoid(x w_xi + h w_hi + b_i)      g = tanh(x w_xg + h w_hg + b_g)
//   f = sigmoid(x w_xf + h w_hf + b_f + forget_bias)     o = sigmoid(x w_xo + h w_ho + b_o)
//   c' = f * c + i * g                      h' = o * tanh(c')
// (Hochreiter and Schmidhuber 1997; forget gate of Gers et al. 2000). Weights and bias concatenate
// the gates i, f, g, o: w_x [n, 4h], w_h [h, 4h], bias [4h].

struct LstmOptions {
  Output lengths = {};     // undefined: all time steps
  double forget_bias = 0;  // Jozefowicz et al. 2015 begin with 1
  bool reverse = false;
};
struct Lstm {
  Output y;     // [time, batch, h], h' of each step
  Output h, c;  // [batch, h], after the last step of each row; h0 and c0 for a row of length 0
};
// x [time, batch, n], h0 and c0 [batch, h].
Lstm lstm(Output x, Output h0, Output c0, Output w_x, Output w_h, Output bias,
          LstmOptions options = {}, Origin at = Origin::here());
// One step: x [batch, n], h and c [batch, h].
struct LstmCell {
  Output h, c;
};
LstmCell lstm_cell(Output x, Output h, Output c, Output w_x, Output w_h, Output bias,
                   double forget_bias = 0, Origin at = Origin::here());

// ---- gated recurrent unit ----
//   r = sigmoid(x w_xr + b_r + h w_hr + d_r)      z = sigmoid(x w_xz + b_z + h w_hz + d_z)
//   n = tanh(x w_xn + b_n + r * (h w_hn + d_n))   with reset_after, as cuDNN, Keras, and ONNX's
//                                                 linear_before_reset
//   n = tanh(x w_xn + b_n + (r * h) w_hn + d_n)   without (Cho et al. 2014)
//   h' = (1 - z) * n + z * h
// Weights and biases concatenate r, z, n: w_x [n, 3h], w_h [h, 3h], bias b and recurrent_bias d
// [3h].

struct GruOptions {
  Output lengths = {};  // undefined: all time steps
  bool reset_after = true;
  bool reverse = false;
};
struct Gru {
  Output y;  // [time, batch, h], h' of each step
  Output h;  // [batch, h], after the last step of each row; h0 for a row of length 0
};
// x [time, batch, n], h0 [batch, h].
Gru gru(Output x, Output h0, Output w_x, Output w_h, Output bias, Output recurrent_bias,
        GruOptions options = {}, Origin at = Origin::here());
// One step: x [batch, n], h [batch, h] -> [batch, h].
Output gru_cell(Output x, Output h, Output w_x, Output w_h, Output bias, Output recurrent_bias,
                bool reset_after = true, Origin at = Origin::here());

// ---- attention ----

struct AttentionOptions {
  // Broadcast to [batch, heads, queries, keys]: bool, true where a query sees a key, or floats that
  // are added to the scores. Undefined: all are seen.
  Output mask = {};
  bool causal = false;               // query i sees keys 0 to i
  std::optional<double> scale = {};  // of the products; left out: 1 / sqrt(d)
  double dropout = 0;                // of the weights, as in dropout()
  int64_t seed = 0;                  // of the dropout
};
// softmax(scale * q k^T + mask) v over the keys (Vaswani et al. 2017): q [batch, heads, queries,
// d], k [batch, heads, keys, d], v [batch, heads, keys, dv] -> [batch, heads, queries, dv]. Zeros
// for a query that sees no key. With dropout, for second derivatives, and for the gradient of a
// mask, the scores of all queries are in memory at once; otherwise those of a few.
Output scaled_dot_product_attention(Output q, Output k, Output v, AttentionOptions options = {},
                                    Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// Losses and other distances between predictions and labels, all for floats; see troupe/ops.hpp.
// Labels broadcast to the predictions, never the other way: [n] beside [n, 1] is refused.

// ---- element by element; reduce_mean() reduces them to one number ----

// -z * log(sigmoid(x)) - (1 - z) * log(1 - sigmoid(x)), finite for all finite logits x and labels
// z.
Output sigmoid_cross_entropy(Output logits, Output labels, Origin at = Origin::here());
// With d = |predictions - labels|: d^2 / 2 up to delta, delta * (d - delta / 2) beyond (Huber
// 1964).
Output huber_loss(Output predictions, Output labels, double delta = 1, Origin at = Origin::here());
// max(0, 1 - logits * labels); labels are -1 and 1.
Output hinge_loss(Output logits, Output labels, Origin at = Origin::here());
// -z * log(p + epsilon) - (1 - z) * log(1 - p + epsilon), for probabilities p and labels z in [0,
// 1].
Output log_loss(Output predictions, Output labels, double epsilon = 1e-7,
                Origin at = Origin::here());

// ---- one number, or one a row ----

// The mean over all elements.
Output mean_squared_error(Output predictions, Output labels, Origin at = Origin::here());
Output mean_absolute_error(Output predictions, Output labels, Origin at = Origin::here());
// The sum of p * log(p / q) over the last dimension; 0 where p is 0.
Output kl_divergence(Output p, Output q, Origin at = Origin::here());
// The sum of a * b over one axis, divided by the norms of a and b, which count as at least 1e-8.
Output cosine_similarity(Output a, Output b, int64_t axis = -1, Origin at = Origin::here());
// -(the sum of z * log(softmax(logits))) over the last dimension, with z = (1 - label_smoothing) *
// probabilities + label_smoothing / classes (Szegedy et al. 2016).
Output softmax_cross_entropy_with_probabilities(Output logits, Output probabilities,
                                                double label_smoothing = 0,
                                                Origin at = Origin::here());

// ---- over few classes instead of all ----
// logits = inputs [batch, n] times weights [classes, n] plus biases [classes], of the labels and of
// candidates that were drawn with the labels as true_ids, minus the logarithm of each class's
// expected count. labels i32 or i64, [batch] or [batch, some]. One number a row. remove_hits: a
// candidate that is a label of a row does not count in that row.

// Noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012): logistic losses,
// labels against candidates.
Output nce_loss(Output weights, Output biases, Output inputs, Output labels,
                const Candidates& candidates, bool remove_hits = false, Origin at = Origin::here());
// The softmax cross entropy over labels and candidates (Jean et al. 2015), for training only.
Output sampled_softmax_loss(Output weights, Output biases, Output inputs, Output labels,
                            const Candidates& candidates, bool remove_hits = true,
                            Origin at = Origin::here());

// ---- sequences ----

// Connectionist temporal classification (Graves et al. 2006): -log of the probability that
// softmax(logits) spells the labels after blanks and repetitions are removed. logits [time, batch,
// classes], labels [batch, most], sizes [batch], all of i32 or i64: row b uses its first
// label_sizes[b] labels and its first time_sizes[b] times. Infinity, without a gradient, for labels
// that do not fit into the time -> [batch].
Output ctc_loss(Output logits, Output labels, Output time_sizes, Output label_sizes,
                int64_t blank = 0, Origin at = Origin::here());

}  // namespace troupe
