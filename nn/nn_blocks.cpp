// Blocks of troupe/nn.hpp, made of its layers: attention, residual and inception blocks.
#include <cmath>

#include "nn/nn_layers.hpp"
#include "graph/base/refuse.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe::nn {
namespace {

// [time] i64: 0, 1, ... along the second dimension of x.
Output positions(Output x, Origin at) {
  Graph& graph = *x.graph;
  const auto number = [&](int64_t value) {
    return troupe::constant(graph, Tensor::scalar(value), "", at);
  };
  const Output size = reshape(slice(shape_of(x, at), {1}, {1}, at), {}, at);
  return range(number(0), size, number(1), at);
}

// [tq, tk] bool: query i sees keys 0 to i.
Output causal_mask(Output queries, Output memory, Origin at) {
  return greater_equal(expand_dims(positions(queries, at), 1, at),
                       expand_dims(positions(memory, at), 0, at), at);
}

// Scores with the masked ones replaced: far below all others, but finite, so that a row without
// keys is not NaN.
Output masked(Output scores, Output mask, Origin at) {
  const double none = scores.dtype() == DType::f16 ? -6e4 : -1e30;  // finite
  return where(mask, scores, fill(*scores.graph, {}, none, scores.dtype(), "", at), at);
}

struct Attention {
  Model& model;
  int64_t heads, head_width;
  const AttentionOptions& o;
  Origin at;

  // x [b, t, in] -> [b, heads, t, d].
  Output project(Output x, const char* name) const {
    const auto scope = model.scope(name, at);
    const int64_t in = last_size("nn::attention", model, x, 3, at, true), all = heads * head_width;
    const Output w = model.parameter("w", {in, all}, o.weights, x.dtype(), o.regularizer, at);
    const Output y = einsum("bti,ihd->bhtd", {x, reshape(w, {in, heads, head_width}, at)}, at);
    if (!o.bias) return y;
    const Output b = model.parameter("b", {all}, zeros(), x.dtype(), {}, at);
    return add(y, reshape(b, {heads, 1, head_width}, at), at);
  }
  // [b, heads, t, d] -> [b, t, width].
  Output join(Output y, int64_t width) const {
    const auto scope = model.scope("output", at);
    const Output w =
        model.parameter("w", {heads * head_width, width}, o.weights, y.dtype(), o.regularizer, at);
    const Output z = einsum("bhtd,hdo->bto", {y, reshape(w, {heads, head_width, width}, at)}, at);
    if (!o.bias) return z;
    return bias_add(z, model.parameter("b", {width}, zeros(), y.dtype(), {}, at), at);
  }
};

// A convolution and a norm; the norm's beta stands in for a bias.
Output conv_norm(Model& model, Output x, int64_t filters, int64_t window, int64_t stride,
                 const ResidualOptions& o, const std::string& name, Origin at) {
  const ConvOptions conv{.stride = stride,
                         .bias = false,
                         .weights = he_normal(),
                         .regularizer = o.regularizer,
                         .name = name};
  const BatchNormOptions norm{.decay = o.decay, .epsilon = o.epsilon, .name = name + "_norm"};
  return batch_norm(model, conv2d(model, x, filters, window, conv, at), norm, at);
}

Output conv_relu(Model& model, Output x, int64_t filters, int64_t window, const InceptionOptions& o,
                 const std::string& name, Origin at) {
  const ConvOptions conv{
      .bias = !o.batch_norm, .weights = he_normal(), .regularizer = o.regularizer, .name = name};
  const Output y = conv2d(model, x, filters, window, conv, at);
  if (!o.batch_norm) return relu(y, at);
  const BatchNormOptions norm{.decay = o.decay, .epsilon = o.epsilon, .name = name + "_norm"};
  return relu(batch_norm(model, y, norm, at), at);
}

}  // namespace

Output attention(Model& model, Output queries, Output memory, int64_t heads,
                 const AttentionOptions& o, Origin at) {
  const int64_t width = last_size("nn::attention", model, queries, 3, at, true);
  last_size("nn::attention", model, memory, 3, at, true);
  require_positive("nn::attention", "head", heads, at);
  if (o.head_width < 0 || (o.head_width == 0 && (width % heads != 0 || width < heads)))
    throw refuse("nn::attention", at, "wants a head_width, or a width of the queries that ", heads,
                 " heads can share, got ", o.head_width, " and ", width);
  if (o.mask.defined() && o.mask.dtype() != DType::boolean)
    throw refuse("nn::attention", at, "wants a mask of bool, got ", o.mask.dtype());
  const auto scope = model.layer(o.name, "attention", at);
  const int64_t head_width = o.head_width > 0 ? o.head_width : width / heads;
  const Attention parts{model, heads, head_width, o, at};
  const Output q = parts.project(queries, "query"), k = parts.project(memory, "key"),
               v = parts.project(memory, "value");
  if (!model.training() || o.dropout == 0) {
    const troupe::AttentionOptions one{.mask = o.mask, .causal = o.causal};
    return parts.join(scaled_dot_product_attention(q, k, v, one, at), width);
  }
  // Dropout draws by the model's keys, so that it does not depend on the scope of a replica.
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  const Output shorter = multiply(q, fill(model.graph(), {}, scale, q.dtype(), "", at), at);
  Output scores = matmul(shorter, k, {.transpose_b = true}, at);
  if (o.causal) scores = masked(scores, causal_mask(queries, memory, at), at);
  if (o.mask.defined()) scores = masked(scores, o.mask, at);
  const Output weights = dropout(model, softmax(scores, at), o.dropout, at);
  return parts.join(matmul(weights, v, {}, at), width);
}

Output residual_block(Model& model, Output x, int64_t filters, const ResidualOptions& o,
                      Origin at) {
  const int64_t in = last_size("nn::residual_block", model, x, 4, at, true);
  require_positive("nn::residual_block", "filter", filters, at);
  require_positive("nn::residual_block", "pixel of stride", o.stride, at);
  const auto scope = model.layer(o.name, "residual", at);
  const int64_t out = o.bottleneck ? 4 * filters : filters;
  const auto conv = [&](Output y, int64_t to, int64_t window, int64_t stride, const char* name) {
    return conv_norm(model, y, to, window, stride, o, name, at);
  };
  Output y = x;
  if (o.bottleneck) {
    y = relu(conv(y, filters, 1, 1, "conv1"), at);
    y = relu(conv(y, filters, 3, o.stride, "conv2"), at);
    y = conv(y, out, 1, 1, "conv3");
  } else {
    y = relu(conv(y, filters, 3, o.stride, "conv1"), at);
    y = conv(y, out, 3, 1, "conv2");
  }
  const bool same = in == out && o.stride == 1;
  return relu(add(y, same ? x : conv(x, out, 1, o.stride, "shortcut"), at), at);
}

Output inception_block(Model& model, Output x, const Inception& filters, const InceptionOptions& o,
                       Origin at) {
  last_size("nn::inception_block", model, x, 4, at, true);
  for (const int64_t n : {filters.one, filters.three_reduced, filters.three, filters.five_reduced,
                          filters.five, filters.pooled})
    require_positive("nn::inception_block", "filter in each convolution", n, at);
  const auto scope = model.layer(o.name, "inception", at);
  const auto conv = [&](Output y, int64_t to, int64_t window, const char* name) {
    return conv_relu(model, y, to, window, o, name, at);
  };
  const Output pooled = max_pool2d(x, {.window = 3, .stride = 1, .same_padding = true}, at);
  const std::vector<Output> branches = {
      conv(x, filters.one, 1, "one"),
      conv(conv(x, filters.three_reduced, 1, "three_reduced"), filters.three, 3, "three"),
      conv(conv(x, filters.five_reduced, 1, "five_reduced"), filters.five, 5, "five"),
      conv(pooled, filters.pooled, 1, "pooled")};
  return concat(branches, 3, at);
}

}  // namespace troupe::nn
