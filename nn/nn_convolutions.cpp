// Layers of troupe/nn.hpp with convolutions of any kind, for images of one to three dimensions.
#include "nn/nn_layers.hpp"
#include "graph/base/refuse.hpp"
#include "troupe/ops.hpp"

namespace troupe::nn {
namespace {

// The common part of these layers: sizes, and the parameters of a layer.
struct Filters {
  Model& model;
  const FilterOptions& o;
  const char* caller;
  Origin at;
  DType dtype;
  std::vector<int64_t> window = {};  // one size for each dimension of the images
  double pixels = 1;                 // of a window

  Filters(Model& of, Output x, const std::vector<int64_t>& sizes, const FilterOptions& options,
          const char* function, Origin origin)
      : model(of), o(options), caller(function), at(origin), dtype(x.dtype()) {
    const int images = x.shape().ndim() - 2;
    if (images > 3)
      throw refuse(caller, at, "wants images of one to three dimensions, got ", x.shape());
    if (sizes.size() != 1 && sizes.size() != static_cast<size_t>(images))
      throw refuse(caller, at, "wants a window of one size, or of ", images, ", got ",
                   sizes.size());
    for (int d = 0; d < images; ++d) {
      window.push_back(sizes[sizes.size() == 1 ? 0 : static_cast<size_t>(d)]);
      require_positive(caller, "pixel in a window", window.back(), at);
      pixels *= static_cast<double>(window.back());
    }
  }
  // w [window..., rows, columns] for filters that read `in` channels and make `out` of them.
  Output weights(int64_t rows, int64_t columns, int64_t in, int64_t out) const {
    std::vector<int64_t> shape = window;
    shape.insert(shape.end(), {rows, columns});
    const Initializer first =
        with_fans(o.weights, pixels * static_cast<double>(in), pixels * static_cast<double>(out));
    return model.parameter("w", Shape(shape), first, dtype, o.regularizer, at);
  }
  Output biased(Output y, int64_t channels) const {
    if (!o.bias) return y;
    return bias_add(y, model.parameter("b", {channels}, o.biases, dtype, {}, at), at);
  }
};

void require_groups(const char* caller, int64_t groups, int64_t in, int64_t filters, Origin at) {
  require_positive(caller, "filter", filters, at);
  if (groups < 1 || in % groups != 0 || filters % groups != 0)
    throw refuse(caller, at, "wants groups that divide the ", in, " channels and ", filters,
                 " filters, got ", groups);
}

}  // namespace

Output convolution(Model& model, Output x, int64_t filters, const std::vector<int64_t>& window,
                   const ConvolutionOptions& where, const FilterOptions& options, Origin at) {
  const char* const caller = "nn::convolution";
  const int64_t in = last_size(caller, model, x, 3, at);
  require_groups(caller, where.groups, in, filters, at);
  const Filters layer(model, x, window, options, caller, at);
  const auto scope = model.layer(options.name, "convolution", at);
  const int64_t part = in / where.groups;
  const Output w = layer.weights(part, filters, part, filters / where.groups);
  return layer.biased(troupe::convolution(x, w, where, at), filters);
}

Output depthwise_convolution(Model& model, Output x, int64_t multiplier,
                             const std::vector<int64_t>& window, const ConvolutionOptions& where,
                             const FilterOptions& options, Origin at) {
  const char* const caller = "nn::depthwise_convolution";
  const int64_t in = last_size(caller, model, x, 3, at);
  require_positive(caller, "channel for each", multiplier, at);
  const Filters layer(model, x, window, options, caller, at);
  const auto scope = model.layer(options.name, "depthwise_convolution", at);
  const Output w = layer.weights(in, multiplier, 1, multiplier);
  return layer.biased(troupe::depthwise_convolution(x, w, where, at), in * multiplier);
}

Output convolution_transpose(Model& model, Output x, int64_t filters,
                             const std::vector<int64_t>& window, const ConvolutionOptions& where,
                             const FilterOptions& options, Origin at) {
  const char* const caller = "nn::convolution_transpose";
  const int64_t in = last_size(caller, model, x, 3, at);
  require_groups(caller, where.groups, in, filters, at);
  const Filters layer(model, x, window, options, caller, at);
  const auto scope = model.layer(options.name, "convolution_transpose", at);
  const int64_t part = filters / where.groups;
  const Output w = layer.weights(part, in, in / where.groups, part);
  return layer.biased(troupe::convolution_transpose(x, w, where, {}, at), filters);
}

}  // namespace troupe::nn
