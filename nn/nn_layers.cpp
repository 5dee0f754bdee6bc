// Layers of troupe/nn.hpp around a single op: dense, convolution, embedding, dropout, norms.
#include "nn/nn_layers.hpp"

#include "graph/base/refuse.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe::nn {

void require_positive(const char* caller, const char* what, int64_t value, Origin at) {
  if (value < 1) throw refuse(caller, at, "wants at least one ", what, ", got ", value);
}

void require_floats(const char* caller, const Model& model, Output x, int ndim, Origin at,
                    bool exactly) {
  if (!x.defined()) throw refuse(caller, at, "reads an undefined Output; pass the result of an op");
  if (x.graph != &model.graph())
    throw refuse(caller, at, "reads ", x.name(), " of another graph than its model's");
  const Shape& shape = x.shape();
  if (!is_floating(x.dtype()) || (exactly ? shape.ndim() != ndim : shape.ndim() < ndim))
    throw refuse(caller, at, "wants floats with ", exactly ? "" : "at least ", ndim,
                 " dimensions, got ", TensorType{x.dtype(), shape});
}

int64_t last_size(const char* caller, const Model& model, Output x, int ndim, Origin at,
                  bool exactly) {
  require_floats(caller, model, x, ndim, at, exactly);
  const Shape& shape = x.shape();
  const int64_t size = shape[shape.ndim() - 1];
  if (size < 0)
    throw refuse(caller, at, "the last size of ", shape,
                 " must be known while building; reshape() can say it");
  return size;
}

Output dense(Model& model, Output x, int64_t units, const DenseOptions& o, Origin at) {
  const int64_t in = last_size("nn::dense", model, x, 2, at);
  require_positive("nn::dense", "unit", units, at);
  const auto scope = model.layer(o.name, "dense", at);
  const Output w = model.parameter("w", {in, units}, o.weights, x.dtype(), o.regularizer, at);
  const Output y = matmul(x, w, {}, at);
  if (!o.bias) return y;
  return bias_add(y, model.parameter("b", {units}, o.biases, x.dtype(), {}, at), at);
}

Output conv2d(Model& model, Output x, int64_t filters, int64_t window, const ConvOptions& o,
              Origin at) {
  const int64_t in = last_size("nn::conv2d", model, x, 4, at, true);
  require_positive("nn::conv2d", "filter", filters, at);
  require_positive("nn::conv2d", "pixel in a window", window, at);
  const auto scope = model.layer(o.name, "conv2d", at);
  const Output w =
      model.parameter("w", {window, window, in, filters}, o.weights, x.dtype(), o.regularizer, at);
  const Output y = troupe::conv2d(x, w, {.stride = o.stride, .same_padding = o.same_padding}, at);
  if (!o.bias) return y;
  return bias_add(y, model.parameter("b", {filters}, o.biases, x.dtype(), {}, at), at);
}

Output embedding(Model& model, Output ids, int64_t rows, int64_t width, const EmbeddingOptions& o,
                 Origin at) {
  require_positive("nn::embedding", "row", rows, at);
  require_positive("nn::embedding", "column", width, at);
  const auto scope = model.layer(o.name, "embedding", at);
  const Output w = model.parameter("w", {rows, width}, o.weights, o.dtype, o.regularizer, at);
  return embedding_lookup(w, ids, o.combiner, at);
}

Output dropout(Model& model, Output x, double rate, Origin at) {
  require_floats("nn::dropout", model, x, 0, at);
  if (!(rate >= 0 && rate < 1))
    throw refuse("nn::dropout", at, "wants a rate in [0, 1), got ", rate);
  const auto scope = model.layer("", "dropout", at);
  if (!model.training() || rate == 0) return x;
  std::vector<Output> inputs = {x};
  for (const Output& value : iteration_path(model.graph())) inputs.push_back(value);
  return model.graph().add(
      {.op = "Dropout",
       .inputs = std::move(inputs),
       .attrs = {{"rate", rate}, {"seed", model.seed()}, {"key", model.random_key()}}},
      at);
}

Output flatten(Output x, Origin at) {
  if (!x.defined() || x.shape().ndim() < 1)
    throw refuse("nn::flatten", at, "wants x [b, ...], got ",
                 x.defined() ? to_string(x.shape()) : "an undefined Output");
  int64_t size = 1;
  for (int d = 1; d < x.shape().ndim(); ++d) {
    if (x.shape()[d] < 0)
      throw refuse("nn::flatten", at, "the sizes of ", x.shape(),
                   " but the first must be known while building");
    size *= x.shape()[d];
  }
  // With a known first size the shape is determined even if there are no elements; -1 could not be
  // inferred then.
  const int64_t batch = x.shape()[0];
  return reshape(x, {batch, size}, at);
}

namespace {

struct Affine {
  Output gamma, beta;
};
Affine affine(Model& model, Output x, int64_t channels, Origin at) {
  return {model.parameter("gamma", {channels}, ones(), x.dtype(), {}, at),
          model.parameter("beta", {channels}, zeros(), x.dtype(), {}, at)};
}

// n / (n - 1) for n values of each channel, a number that perhaps only the step knows; 1 for one
// value.
Output bessel(Output x, int64_t channels, Origin at) {
  const DType dtype = is_half(x.dtype()) ? DType::f32 : x.dtype();  // f16 counts only up to 2048
  const auto number = [&](double value) { return fill(*x.graph, {}, value, dtype, "", at); };
  const Output size = cast(reduce_prod(shape_of(x, at), {}, at), dtype, at);
  const Output n = divide(size, number(static_cast<double>(channels)), at);
  return divide(n, maximum(subtract(n, number(1), at), number(1), at), at);
}

}  // namespace

Output batch_norm(Model& model, Output x, const BatchNormOptions& o, Origin at) {
  const int64_t channels = last_size("nn::batch_norm", model, x, 2, at);
  require_positive("nn::batch_norm", "channel", channels, at);
  const auto scope = model.layer(o.name, "batch_norm", at);
  const auto [gamma, beta] = affine(model, x, channels, at);
  const auto running = [&](const char* name, double first, Output value) {
    return model.running_average(name, {channels}, first, value, o.decay, x.dtype(), at);
  };
  if (!model.training())
    return batch_norm_inference(x, gamma, beta, running("mean", 0, {}), running("variance", 1, {}),
                                o.epsilon, at);
  const BatchNorm out = troupe::batch_norm(x, gamma, beta, o.epsilon, at);
  running("mean", 0, out.mean);
  running("variance", 1, multiply(out.variance, bessel(x, channels, at), at));
  return out.y;
}

Output layer_norm(Model& model, Output x, const NormOptions& o, Origin at) {
  const int64_t channels = last_size("nn::layer_norm", model, x, 1, at);
  const auto scope = model.layer(o.name, "layer_norm", at);
  const auto [gamma, beta] = affine(model, x, channels, at);
  return troupe::layer_norm(x, gamma, beta, o.epsilon, at);
}

Output rms_norm(Model& model, Output x, const NormOptions& o, Origin at) {
  const int64_t channels = last_size("nn::rms_norm", model, x, 1, at);
  const auto scope = model.layer(o.name, "rms_norm", at);
  const Output gamma = model.parameter("gamma", {channels}, ones(), x.dtype(), {}, at);
  return troupe::rms_norm(x, gamma, o.epsilon, at);
}

Output group_norm(Model& model, Output x, int64_t groups, const NormOptions& o, Origin at) {
  const int64_t channels = last_size("nn::group_norm", model, x, 2, at);
  if (groups < 1 || channels % groups != 0)
    throw refuse("nn::group_norm", at, "wants a number of groups that divides the ", channels,
                 " channels, got ", groups);
  const auto scope = model.layer(o.name, "group_norm", at);
  const auto [gamma, beta] = affine(model, x, channels, at);
  return troupe::group_norm(x, gamma, beta, groups, o.epsilon, at);
}

}  // namespace troupe::nn
