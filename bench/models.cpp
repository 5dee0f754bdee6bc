// The models of the benchmark `train` as graphs, and the file of their weights.
#include "bench/models.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe::bench {
namespace {

// Numbers of a batch that look random and are easy to reproduce: the mixing step of a
// multiplicative hash (Knuth, The Art of Computer Programming 3, 6.4).
uint32_t scattered(uint64_t i) {
  auto h = static_cast<uint32_t>(i) * 2654435761u;
  h ^= h >> 15;
  h *= 2246822519u;
  return h ^ h >> 13;
}

class Builder {
 public:
  Builder(Graph& graph, const ModelOptions& options, std::string name, int64_t batch)
      : g_(graph), held_(options.held) {
    model_.name = std::move(name);
    model_.batch = batch;
  }
  Graph& graph() { return g_; }

  // Floats in [0, 1).
  Output images(const Shape& shape) {
    std::vector<float> pixels(static_cast<size_t>(shape.size()));
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<float>(scattered(i) % 256) / 256;
    return feed("x", Tensor::of<float>(pixels, shape));
  }
  Output indices(const std::string& name, const Shape& shape, int64_t below, uint64_t salt) {
    std::vector<int64_t> values(static_cast<size_t>(shape.size()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = scattered(i + salt) % static_cast<uint64_t>(below);
    return feed(name, Tensor::of<int64_t>(values, shape));
  }
  Output feed(const std::string& name, const Tensor& value) {
    if (held_) return constant(g_, value);
    const Output x = placeholder(g_, value.dtype(), value.shape(), name);
    model_.fed.emplace_back(name, x);
    model_.feeds.push_back(value);
    return x;
  }

  Output normal(const std::string& name, const Shape& shape, double stddev) {
    return parameter(name, truncated_normal(g_, shape, 0, stddev, ++seed_));
  }
  Output uniform(const std::string& name, const Shape& shape, double limit) {
    return parameter(name, random_uniform(g_, shape, -limit, limit, ++seed_));
  }
  Output filled(const std::string& name, int64_t size, double value) {
    return parameter(name, fill(g_, {size}, value));
  }

  // Layer n has the weights w<n> and the biases b<n>.
  Output dense(Output x, int64_t in, int64_t out, double stddev = 0.05) {
    count(static_cast<double>(x.shape()[0] * in * out), layers_ > 0);
    const int n = layers_++;
    return bias_add(matmul(x, normal(detail::concat("w", n), {in, out}, stddev)),
                    filled(detail::concat("b", n), out, 0));
  }
  // A convolution without a bias.
  Output convolved(Output x, int64_t window, int64_t out, int64_t stride, double stddev,
                   bool reads_fed) {
    const Shape& in = x.shape();
    const int64_t side = (in[1] + stride - 1) / stride;
    count(static_cast<double>(in[0] * side * side * window * window * in[3] * out), !reads_fed);
    return conv2d(x, normal(detail::concat("w", layers_), {window, window, in[3], out}, stddev),
                  {.stride = stride});
  }
  Output convolution(Output x, int64_t window, int64_t out, double stddev, bool reads_fed) {
    const Output y = convolved(x, window, out, 1, stddev, reads_fed);
    return relu(bias_add(y, filled(detail::concat("b", layers_++), out, 0)));
  }
  Output normalized(Output x) {  // a batch norm after a convolution
    const int n = layers_++;
    const int64_t channels = x.shape()[3];
    return batch_norm(x, filled(detail::concat("gamma", n), channels, 1),
                      filled(detail::concat("beta", n), channels, 0))
        .y;
  }
  void count(double products, bool both) { model_.flop += 2 * products * (both ? 3 : 2); }

  Model classify(Output logits, const Optimizer& optimizer) {
    std::vector<int64_t> classes(static_cast<size_t>(model_.batch));
    for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int64_t>(i % 10);
    const Output labels = feed("labels", Tensor::of<int64_t>(classes, {model_.batch}));
    return finish(reduce_mean(softmax_cross_entropy(logits, labels)), optimizer);
  }
  Model finish(Output loss, const Optimizer& optimizer) {
    model_.loss = loss;
    model_.update = minimize(loss, optimizer);
    return std::move(model_);
  }

 private:
  Graph& g_;
  const bool held_;
  Model model_;
  int layers_ = 0;
  int64_t seed_ = 0;
};

Model mlp(Graph& g, const ModelOptions& options) {
  Builder b(g, options, "mlp", 128);
  const Output h = relu(b.dense(b.images({128, 784}), 784, 1024));
  return b.classify(b.dense(relu(b.dense(h, 1024, 1024)), 1024, 10), sgd(0.01));
}

Model cnn(Graph& g, const ModelOptions& options) {
  Builder b(g, options, "cnn", 64);
  Output x = max_pool2d(b.convolution(b.images({64, 28, 28, 1}), 5, 32, 0.05, true));
  x = max_pool2d(b.convolution(x, 5, 64, 0.05, false));
  x = relu(b.dense(reshape(x, {64, 7 * 7 * 64}), 7 * 7 * 64, 512));
  return b.classify(b.dense(x, 512, 10), sgd(0.01));
}

// He, Zhang, Ren and Sun 2016, section 4.2: three stages of three blocks of two convolutions, with
// shortcuts without parameters (option A: every second pixel, zeros for new channels).
Model resnet20(Graph& g, const ModelOptions& options) {
  Builder b(g, options, "resnet20", 64);
  const auto layer = [&](Output x, int64_t out, int64_t stride, bool fed = false) {
    const double stddev = std::sqrt(2.0 / static_cast<double>(9 * x.shape()[3]));
    return b.normalized(b.convolved(x, 3, out, stride, stddev, fed));
  };
  Output x = relu(layer(b.images({64, 32, 32, 3}), 16, 1, true));
  for (const int64_t channels : {16, 32, 64})
    for (int block = 0; block < 3; ++block) {
      const auto scope = g.scope({.recompute = options.recompute});
      const bool wider = x.shape()[3] < channels;
      const Output y = layer(relu(layer(x, channels, wider ? 2 : 1)), channels, 1);
      if (wider) {
        const int64_t some = channels / 4;
        x = strided_slice(x, {0, 0, 0, 0}, {64, x.shape()[1], x.shape()[2], x.shape()[3]},
                          {.strides = {1, 2, 2, 1}});
        x = pad(x, {0, 0, 0, some}, {0, 0, 0, some});
      }
      x = relu(add(y, x));
    }
  return b.classify(b.dense(reduce_mean(x, {.axes = {1, 2}}), 64, 10, 0.1), momentum(0.02, 0.9));
}

// Szegedy et al. 2015, table 1, blocks 3a and 3b, with the means of all channels as the head.
Model inception(Graph& g, const ModelOptions& options) {
  Builder b(g, options, "inception", 32);
  const auto layer = [&](Output x, int64_t window, int64_t out, bool fed) {
    const auto fan_in = static_cast<double>(window * window * x.shape()[3]);
    return b.convolution(x, window, out, std::sqrt(2 / fan_in), fed);
  };
  const auto block = [&](Output x, std::vector<int64_t> out, bool fed) {
    const Output one = layer(x, 1, out[0], fed);
    const Output three = layer(layer(x, 1, out[1], fed), 3, out[2], false);
    const Output five = layer(layer(x, 1, out[3], fed), 5, out[4], false);
    const Output pool = max_pool2d(x, {.window = 3, .stride = 1, .same_padding = true});
    return concat({one, three, five, layer(pool, 1, out[5], fed)}, 3);
  };
  Output x = block(b.images({32, 28, 28, 192}), {64, 96, 128, 16, 32, 32}, true);
  x = block(x, {128, 128, 192, 32, 96, 64}, false);
  return b.classify(b.dense(reduce_mean(x, {.axes = {1, 2}}), 480, 10), sgd(0.1));
}

// Zaremba, Sutskever and Vinyals 2014, the small model, without dropout: gates i, f, g, o.
Model language_model(Graph& g, const ModelOptions& options) {
  constexpr int64_t kWords = 10'000, kUnits = 200, kSteps = 35, kBatch = 20;
  Builder b(g, options, "lstm", kBatch);
  const Output words = b.indices("words", {kSteps, kBatch}, kWords, 1);
  const Output next = b.indices("next", {kSteps * kBatch}, kWords, 7'000);
  const Output zeros = fill(g, {kBatch, kUnits}, 0);
  Output x = gather(b.uniform("embedding", {kWords, kUnits}, 0.1), words);
  for (const int number : {0, 1}) {
    const Output wx = b.uniform(detail::concat("wx", number), {kUnits, 4 * kUnits}, 0.1);
    const Output wh = b.uniform(detail::concat("wh", number), {kUnits, 4 * kUnits}, 0.1);
    const Output bias = b.filled(detail::concat("b", number), 4 * kUnits, 0);
    b.count(static_cast<double>(2 * kSteps * kBatch * kUnits * 4 * kUnits), true);
    x = lstm(x, zeros, zeros, wx, wh, bias).y;
  }
  x = reshape(x, {kSteps * kBatch, kUnits});
  b.count(static_cast<double>(kSteps * kBatch * kUnits * kWords), true);
  const Output logits = bias_add(matmul(x, b.uniform("softmax_w", {kUnits, kWords}, 0.1)),
                                 b.filled("softmax_b", kWords, 0));
  return b.finish(reduce_mean(softmax_cross_entropy(logits, next)), sgd(1));
}

// Radford et al. 2019, 2.3, smaller: norms come before the layers that they serve. The weights of
// the last layer are its own.
Model gpt(Graph& g, const ModelOptions& options) {
  constexpr int64_t kWords = 8'000, kWidth = 256, kHeads = 4, kBlocks = 4, kTime = 128, kBatch = 8;
  constexpr int64_t kRows = kBatch * kTime, kEach = kWidth / kHeads;
  Builder b(g, options, "gpt", kBatch);
  const Output words = b.indices("words", {kBatch, kTime}, kWords, 1);
  const Output next = b.indices("next", {kRows}, kWords, 7'000);
  Output x = add(gather(b.normal("embedding", {kWords, kWidth}, 0.02), words),
                 b.normal("positions", {kTime, kWidth}, 0.02));
  x = reshape(x, {kRows, kWidth});
  int norms = 0;
  const auto norm = [&](Output y) {
    const int n = norms++;
    return layer_norm(y, b.filled(detail::concat("gamma", n), kWidth, 1),
                      b.filled(detail::concat("beta", n), kWidth, 0));
  };
  for (int64_t block = 0; block < kBlocks; ++block) {
    std::vector<Output> seen;  // queries, keys and values
    for (const Output& part : split(b.dense(norm(x), kWidth, 3 * kWidth, 0.02), 3, 1))
      seen.push_back(transpose(reshape(part, {kBatch, kTime, kHeads, kEach}), {0, 2, 1, 3}));
    // Half of the pairs of a causal mask, which the kernel may leave out.
    b.count(static_cast<double>(2 * kBatch * kHeads * kTime * kTime * kEach) / 2, true);
    const Output heads = scaled_dot_product_attention(seen[0], seen[1], seen[2], {.causal = true});
    x = x + b.dense(reshape(transpose(heads, {0, 2, 1, 3}), {kRows, kWidth}), kWidth, kWidth, 0.02);
    const Output wide = gelu(b.dense(norm(x), kWidth, 4 * kWidth, 0.02), true);
    x = x + b.dense(wide, 4 * kWidth, kWidth, 0.02);
  }
  return b.finish(reduce_mean(softmax_cross_entropy(b.dense(norm(x), kWidth, kWords, 0.02), next)),
                  adam(0.001));
}

// Logistic regression on examples with 40 out of a million binary features.
Model sparse_lr(Graph& g, const ModelOptions& options) {
  constexpr int64_t kFeatures = 1'000'000, kPerExample = 40, kBatch = 512;
  Builder b(g, options, "sparse-lr", kBatch);
  const Output features = b.indices("features", {kBatch, kPerExample}, kFeatures, 3);
  std::vector<float> clicks(kBatch);
  for (size_t i = 0; i < clicks.size(); ++i) clicks[i] = scattered(i) % 4 == 0 ? 1.0f : 0.0f;
  const Output labels = b.feed("labels", Tensor::of<float>(clicks, {kBatch}));
  const Output scores = reduce_sum(gather(b.filled("w", kFeatures, 0), features), {.axes = {1}});
  const Output logits = add(scores, b.filled("b", 1, 0));
  return b.finish(reduce_mean(sigmoid_cross_entropy(logits, labels)), sgd(1));
}

struct Named {
  const char* name;
  Model (*make)(Graph&, const ModelOptions&);
};
constexpr Named kModels[] = {{"mlp", mlp},
                             {"cnn", cnn},
                             {"resnet20", resnet20},
                             {"inception", inception},
                             {"lstm", language_model},
                             {"gpt", gpt},
                             {"sparse-lr", sparse_lr}};

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Named& model : kModels) all.emplace_back(model.name);
    return all;
  }();
  return names;
}

Model make_model(Graph& graph, const std::string& name, const ModelOptions& options) {
  if (options.recompute && name != "resnet20")
    throw Error(Errc::invalid_argument, "the model ", name,
                " has no blocks to compute again; resnet20 has");
  std::string known;
  for (const Named& model : kModels) {
    if (model.name == name) return model.make(graph, options);
    known += (known.empty() ? "" : ", ") + std::string(model.name);
  }
  throw Error(Errc::invalid_argument, "there is no model \"", name, "\"; there are ", known);
}

void write_model(const std::string& name, const std::string& path) {
  Graph graph;
  const Model model = make_model(graph, name);
  Session session = Session::local(graph, {.threads = 1});
  std::vector<Output> fed;
  for (const auto& [unused, output] : model.fed) fed.push_back(output);
  session.prepare({model.loss, model.update}, fed);
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& [parameter, value] : parameter_values(session))
    tensors.emplace_back(parameter, value);
  for (size_t i = 0; i < fed.size(); ++i) tensors.emplace_back(model.fed[i].first, model.feeds[i]);
  std::ofstream out(path, std::ios::binary);
  for (const auto& [label, tensor] : tensors) {
    out << label << ' ' << to_string(tensor.dtype());
    for (int d = 0; d < tensor.ndim(); ++d) out << ' ' << tensor.dim(d);
    out << '\n';
  }
  out << '\n';
  for (const auto& [label, tensor] : tensors)
    out.write(static_cast<const char*>(tensor.raw()), tensor.byte_size());
  if (!out.flush()) throw Error(Errc::io, "cannot write ", path);
}

}  // namespace troupe::bench
