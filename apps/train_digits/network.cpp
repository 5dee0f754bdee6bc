// The graph of the network that train_digits trains.
#include "apps/train_digits/network.hpp"

#include <cmath>

#include "troupe/optimizer.hpp"

using namespace troupe;

namespace {

// [height, width, in, out] filters and [in, out] matrices, He et al. 2015: stddev sqrt(2 / fan_in).
Output weight(Graph& g, std::string_view name, const Shape& shape, int64_t seed) {
  int64_t fan_in = 1;
  for (int i = 0; i + 1 < shape.ndim(); ++i) fan_in *= shape[i];
  return parameter(
      name, truncated_normal(g, shape, 0, std::sqrt(2.0 / static_cast<double>(fan_in)), seed));
}

struct Layer {
  Output w, b;
};

// Made outside of the layer's own scope: the name of a node chooses its random numbers.
Layer layer(Graph& g, const std::string& name, const Shape& shape, int64_t seed) {
  return {weight(g, name + "/w", shape, seed),
          parameter(name + "/b", fill(g, {shape[shape.ndim() - 1]}, 0))};
}

// images [n, side, side, 1] -> logits [n, 10]
Output logits_of(Graph& g, const Setting& s, Output images, bool training) {
  const bool large = s.side > 8;
  const int64_t side = s.side / (large ? 4 : 2), flat = side * side * 2 * s.channels;
  const Layer conv1 = layer(g, "conv1", {s.filter, s.filter, 1, s.channels}, 11);
  const Layer conv2 = layer(g, "conv2", {s.filter, s.filter, s.channels, 2 * s.channels}, 12);
  const Layer fc1 = layer(g, "fc1", {flat, s.hidden}, 13);
  const Layer fc2 = layer(g, "fc2", {s.hidden, 10}, 14);
  Output x = images;
  {
    const auto scope = g.scope({.name = "conv1"});
    x = relu(bias_add(conv2d(x, conv1.w), conv1.b));
    if (large) x = max_pool2d(x);
  }
  {
    const auto scope = g.scope({.name = "conv2"});
    x = max_pool2d(relu(bias_add(conv2d(x, conv2.w), conv2.b)));
  }
  {
    const auto scope = g.scope({.name = "fc1"});
    x = relu(bias_add(matmul(reshape(x, {-1, flat}), fc1.w), fc1.b));
  }
  if (training && s.dropout > 0) x = dropout(x, s.dropout, 15);
  const auto scope = g.scope({.name = "fc2"});
  return bias_add(matmul(x, fc2.w), fc2.b);
}

// The mean loss of a batch.
Output loss_of(Graph& g, const Setting& s, Output logits, Output labels) {
  const auto scope = g.scope({.name = "loss"});
  const Output loss = reduce_mean(softmax_cross_entropy(logits, labels));
  return s.check_loss ? check_finite(loss, "the loss") : loss;
}

void hold_out(Setting& s, const std::string& file, const Dataset& all, int64_t validation) {
  if (validation < 0 || validation >= all.size())
    throw Error(Errc::invalid_argument, "--validation wants 0 to ", all.size() - 1, " of the ",
                all.size(), " images of ", file, " that are not for testing, got ", validation);
  const int64_t n = all.size() - validation;
  s.train = all.rows(0, n);
  s.validation = all.rows(n, all.size());
}

}  // namespace

Setting digits_setting(const std::string& file, int64_t validation) {
  constexpr int64_t kTest = 360;  // the last ones
  const Dataset all = load_digits(file);
  if (all.size() <= kTest)
    throw Error(Errc::bad_data, file, " has ", all.size(), " records; more than ", kTest,
                " are needed");
  Setting s;
  s.name = "digits (UCI)";
  s.test = all.rows(all.size() - kTest, all.size());
  hold_out(s, file, all.rows(0, all.size() - kTest), validation);
  s.steps = 1200, s.wanted_accuracy = 94;
  return s;
}

Setting mnist_setting(const std::string& folder, int64_t validation) {
  const TrainTest data = load_mnist(folder);
  Setting s;
  s.name = "MNIST";
  s.test = data.test;
  hold_out(s, folder, data.train, validation);
  s.side = 28, s.filter = 5, s.channels = 16, s.hidden = 128, s.batch = 64, s.steps = 1000,
  s.wanted_accuracy = 98.5;
  return s;
}

Network build(Graph& g, const Setting& s, const Batches& batches, int64_t towers, int64_t workers) {
  Network net;
  const auto mixed = mixed_precision(g, s.compute);
  for (int64_t i = 0; i < towers; ++i) {
    const std::string device = workers > 0 ? detail::concat("/job:worker/task:", i % workers) : "";
    auto scope = g.scope({.name = detail::concat("tower", i), .device = device, .replica = i});
    Output images = placeholder(g, DType::f32, {-1, s.side, s.side, 1}, "images");
    Output labels = placeholder(g, DType::i64, {-1}, "labels");
    Output loss = loss_of(g, s, logits_of(g, s, images, true), labels);
    const Optimizer optimizer = adam(s.learning_rate);
    Output update =
        s.compute == DType::f16 ? minimize_scaled(loss, optimizer) : minimize(loss, optimizer);
    net.towers.push_back({i, loss, update, {images, labels}, [&batches, i](int64_t step) {
                            Batch b = batches.at(step, i);
                            return std::vector<Tensor>{b.features, b.labels};
                          }});
  }
  auto scope = g.scope({.name = "evaluation"});
  net.images = placeholder(g, DType::f32, {-1, s.side, s.side, 1}, "images");
  net.classes = argmax(logits_of(g, s, net.images, false));
  return net;
}
