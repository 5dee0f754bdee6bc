// Rows of ONNX's layers: convolutions, pools, normalisations, dropout. Their channels are dimension
// 1, Troupe's are the last one.
#include <algorithm>

#include "tests/conformance/windows.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

// [c] as [c, 1, ...], so that it broadcasts over channels in dimension 1 of `ndim`.
Output by_channel(Output x, int ndim) {
  std::vector<int64_t> dims(static_cast<size_t>(ndim - 1), 1);
  dims[0] = -1;
  return reshape(x, Shape(dims));
}

std::vector<Output> conv_row(const NodeCall& c) {
  const Output y = convolve(c, c.input(0), c.input(1));
  if (!c.has_input(2)) return {y};
  return {y + by_channel(c.input(2), y.shape().ndim())};
}

// Resolves the attributes that give the result's sizes: the remainder is split over both ends.
Windows transposed_windows(const NodeCall& c, std::vector<int64_t>& more) {
  const std::vector<int64_t> in = spatial_sizes(c.shape(c.input(0)));
  Windows w = windows_of(c, in, spatial_sizes(c.shape(c.input(1))));
  more = c.integers("output_padding");
  more.resize(in.size(), 0);
  std::vector<int64_t> wanted = c.integers("output_shape");
  const std::string mode = c.text("auto_pad", "NOTSET");
  if (wanted.empty() && mode.rfind("SAME", 0) != 0) return w;
  for (size_t d = 0; d < in.size(); ++d) {
    if (wanted.size() <= d) wanted.push_back(in[d] * w.stride[d]);
    const int64_t reach = (w.size[d] - 1) * w.dilation[d] + 1;
    const int64_t left = w.stride[d] * (in[d] - 1) + more[d] + reach - wanted[d];
    const int64_t less = std::max<int64_t>(left, 0) / 2, rest = std::max<int64_t>(left, 0) - less;
    w.before[d] = mode == "SAME_UPPER" ? less : rest;
    w.after[d] = mode == "SAME_UPPER" ? rest : less;
    more[d] += std::max<int64_t>(-left, 0);
  }
  return w;
}

std::vector<Output> conv_transpose_row(const NodeCall& c) {
  std::vector<int64_t> more;
  const Windows w = transposed_windows(c, more);
  const Output y =
      channels_first(convolution_transpose(channels_last(c.input(0)), filter_of(c.input(1)),
                                           {.strides = w.stride,
                                            .dilations = w.dilation,
                                            .groups = c.integer("group", 1),
                                            .padding = Padding::given,
                                            .before = w.before,
                                            .after = w.after},
                                           more));
  if (!c.has_input(2)) return {y};
  return {y + by_channel(c.input(2), y.shape().ndim())};
}

std::vector<Output> pool(const NodeCall& c, Output (*f)(Output, PoolWindow, Origin)) {
  const Output x = c.input(0);
  const Windows w = windows_of(c, spatial_sizes(c.shape(x)));
  if (!is_floating(x.dtype())) throw NotCovered{"no pooling of integers"};
  for (const int64_t dilation : w.dilation)
    if (dilation != 1) throw NotCovered{"no dilated pooling"};
  return {channels_first(f(channels_last(x),
                           {.size = w.size,
                            .strides = w.stride,
                            .padding = Padding::given,
                            .before = w.before,
                            .after = w.after,
                            .count_padding = c.integer("count_include_pad", 0) != 0},
                           Origin::here()))};
}

std::vector<Output> global_pool(const NodeCall& c, Output (*f)(Output, ReduceOptions, Origin)) {
  std::vector<int64_t> axes;
  for (int d = 2; d < c.input(0).shape().ndim(); ++d) axes.push_back(d);
  return {f(c.input(0), {.axes = axes, .keep_dims = true}, Origin::here())};
}

// Values at their flat indices into the pooled image, which may be smaller than the requested
// output.
std::vector<Output> max_unpool_row(const NodeCall& c) {
  const Output x = c.input(0);
  const Shape in = c.shape(x);
  const Windows w = windows_of(c, spatial_sizes(in));
  std::vector<int64_t> dims{in[0], in[1]};
  for (size_t d = 0; d < w.size.size(); ++d)
    dims.push_back((in[static_cast<int>(d) + 2] - 1) * w.stride[d] + w.size[d] - w.before[d] -
                   w.after[d]);
  const Shape shape(dims);
  const Output flat = scatter_nd(reshape(c.input(1), {-1, 1}), reshape(x, {-1}), {shape.size()});
  const Output y = reshape(flat, shape);
  if (!c.has_input(2)) return {y};
  std::vector<int64_t> after = c.integers(c.input(2));
  for (size_t d = 0; d < after.size(); ++d) after[d] -= dims[d];
  return {pad(y, std::vector<int64_t>(after.size(), 0), after)};
}

std::vector<Output> batch_normalization_row(const NodeCall& c) {
  const Output x = channels_last(c.input(0)), scale = c.input(1), bias = c.input(2);
  const double epsilon = c.real("epsilon", 1e-5);
  if (c.integer("training_mode", 0) == 0)
    return {channels_first(batch_norm_inference(x, scale, bias, c.input(3), c.input(4), epsilon))};
  const double momentum = c.real("momentum", 0.9);
  const BatchNorm norm = batch_norm(x, scale, bias, epsilon);
  const auto running = [&](int old, Output now) {
    return c.input(old) * momentum + now * (1 - momentum);
  };
  return {channels_first(norm.y), running(3, norm.mean), running(4, norm.variance)};
}

std::vector<Output> instance_normalization_row(const NodeCall& c) {
  const Output x = c.input(0);
  return {channels_first(
      instance_norm(channels_last(x), c.input(1), c.input(2), c.real("epsilon", 1e-5)))};
}

// Normalises over all dimensions from `axis` on, taken as one.
std::vector<Output> layer_normalization_row(const NodeCall& c) {
  const Output x = c.input(0);
  const Shape shape = c.shape(x);
  const double epsilon = c.real("epsilon", 1e-5);
  std::vector<int64_t> axes;
  int64_t inner = 1;
  for (auto d = static_cast<int>(axis_of(c.integer("axis", -1), shape.ndim())); d < shape.ndim();
       ++d) {
    axes.push_back(d);
    inner *= shape[d];
  }
  const Output rows = reshape(x, {-1, inner}), gamma = reshape(c.input(1), {inner});
  const Output beta =
      c.has_input(2) ? reshape(c.input(2), {inner}) : fill(c.graph, {inner}, 0, x.dtype());
  const Moments m = moments(x, {.axes = axes, .keep_dims = true});
  return {reshape_like(layer_norm(rows, gamma, beta, epsilon), x), m.mean,
          rsqrt(m.variance + epsilon)};
}

// ONNX's alpha applies to the mean over the window, Troupe's to the sum.
std::vector<Output> lrn_row(const NodeCall& c) {
  const int64_t size = c.integer("size", 1);
  if (size % 2 == 0) throw NotCovered{"no even window over channels"};
  return {channels_first(local_response_norm(
      channels_last(c.input(0)), {.radius = size / 2,
                                  .bias = c.real("bias", 1),
                                  .alpha = c.real("alpha", 1e-4) / static_cast<double>(size),
                                  .beta = c.real("beta", 0.75)}))};
}

std::vector<Output> dropout_row(const NodeCall& c) {
  const Output x = c.input(0);
  const bool training = c.has_input(2) && c.number(cast(c.input(2), DType::f64)) != 0;
  const double rate = c.has_input(1) ? c.number(c.input(1)) : c.real("ratio", 0.5);
  if (training && rate != 0) throw NotCovered{"expected are NumPy's random numbers"};
  return {training ? dropout(x, 0) : identity(x),
          equal(x, x) | fill(c.graph, {}, 1, DType::boolean)};
}

}  // namespace

std::vector<MappedOp> network_rows() {
  return {
      {"BatchNormalization", "batch_norm, batch_norm_inference", batch_normalization_row},
      {"AveragePool", "average_pool", [](const NodeCall& c) { return pool(c, average_pool); }},
      {"Conv", "convolution", conv_row},
      {"ConvTranspose", "convolution_transpose", conv_transpose_row},
      {"Dropout", "dropout, identity", dropout_row},
      {"GlobalAveragePool", "reduce_mean",
       [](const NodeCall& c) { return global_pool(c, reduce_mean); }},
      {"GlobalMaxPool", "reduce_max", [](const NodeCall& c) { return global_pool(c, reduce_max); }},
      {"InstanceNormalization", "instance_norm", instance_normalization_row},
      {"LRN", "local_response_norm", lrn_row},
      {"LayerNormalization", "layer_norm, moments", layer_normalization_row},
      {"MaxPool", "max_pool", [](const NodeCall& c) { return pool(c, max_pool); }},
      {"MaxUnpool", "scatter_nd", max_unpool_row},
  };
}

}  // namespace troupe
