// A small data set of two classes, and a network with towers and an evaluation, for tests of fit().
#pragma once

#include <cmath>
#include <vector>

#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe {

// Points of a plane; class 1 lies on one side of a line.
inline Dataset two_classes(int64_t n, double phase) {
  Dataset out{Tensor::empty(DType::f32, {n, 2}), Tensor::empty(DType::i64, {n})};
  for (int64_t i = 0; i < n; ++i) {
    const double a = std::sin(1.7 * static_cast<double>(i) + phase);
    const double b = std::sin(2.9 * static_cast<double>(i) + 2 * phase);
    out.features.mutable_data<float>()[2 * i] = static_cast<float>(a);
    out.features.mutable_data<float>()[2 * i + 1] = static_cast<float>(b);
    out.labels.mutable_data<int64_t>()[i] = a + 0.5 * b > 0.1;
  }
  return out;
}

struct TwoClasses {
  explicit TwoClasses(const Optimizer& optimizer = adam(0.02), int towers = 2,
                      const char* device = "") {
    for (int i = 0; i < towers; ++i) {
      const auto scope =
          graph.scope({.name = detail::concat("tower", i), .device = device, .replica = i});
      const Network net = network(true);
      const Output update = net.model->with_updates(minimize(net.loss, optimizer));
      all.push_back({i, net.loss, update, {net.x, net.labels}, {}});
    }
    const auto scope = graph.scope({.name = "evaluation", .device = device});
    const Network net = network(false);
    evaluation = {.feeds = {net.x, net.labels},
                  .fetches = {argmax(net.logits), net.loss},
                  .metrics = {accuracy(0), mean_loss(1)},
                  .batch_size = 17};
  }
  FitOptions options(int64_t epochs) const {
    FitOptions out{.epochs = epochs,
                   .batch_size = 10,
                   .seed = 5,
                   .validation = held_out,
                   .evaluation = evaluation};
    return out;
  }

  Graph graph;
  Dataset data = two_classes(90, 0), held_out = two_classes(40, 1);
  std::vector<Tower> all;
  Evaluation evaluation;

 private:
  struct Network {
    std::shared_ptr<nn::Model> model;
    Output x, labels, logits, loss;
  };
  Network network(bool training) {
    Network net;
    net.model = std::make_shared<nn::Model>(graph, nn::Model::Options{.training = training});
    net.x = placeholder(graph, DType::f32, {-1, 2}, "x");
    net.labels = placeholder(graph, DType::i64, {-1}, "labels");
    const Output hidden = relu(nn::batch_norm(*net.model, nn::dense(*net.model, net.x, 8)));
    net.logits = nn::dense(*net.model, hidden, 2);
    net.loss = reduce_mean(softmax_cross_entropy(net.logits, net.labels));
    return net;
  }
};

}  // namespace troupe
