// ResNet-20 for images of 32 x 32 (He et al. 2016, section 4.2), written with the public functions:
// convolutions with strides, batch norm, shortcuts, a global pool.
#include <doctest/doctest.h>

#include <cmath>

#include "troupe/ops.hpp"
#include "troupe/ops/networks.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

struct ResNet {
  Graph graph;
  std::vector<Output> parameters;
  Output images, labels, logits, loss;

  explicit ResNet(int64_t batch)
      : images(placeholder(graph, DType::f32, {batch, 32, 32, 3}, "images")),
        labels(placeholder(graph, DType::i64, {batch}, "labels")) {
    Output x = relu(convolved(images, 16, 1));
    for (const int64_t channels : {16, 32, 64})
      for (int i = 0; i < 3; ++i) x = block(x, channels, channels > 16 && i == 0 ? 2 : 1);
    const Output w = weight({64, 10}, 64);
    logits = bias_add(matmul(global_average_pool(x), w), trained(fill(graph, {10}, 0)));
    loss = reduce_mean(softmax_cross_entropy(logits, labels));
  }

 private:
  Output trained(Output initial) {
    parameters.push_back(parameter(detail::concat("p", parameters.size()), initial));
    return parameters.back();
  }
  Output weight(const Shape& shape, int64_t inputs) {  // He et al. 2015
    const double deviation = std::sqrt(2.0 / static_cast<double>(inputs));
    return trained(
        truncated_normal(graph, shape, 0, deviation, static_cast<int64_t>(parameters.size())));
  }
  Output convolved(Output x, int64_t channels, int64_t stride) {
    const int64_t in = x.shape()[3];
    x = conv2d(x, weight({3, 3, in, channels}, 9 * in), {.stride = stride});
    const Output gamma = trained(fill(graph, {channels}, 1));
    return batch_norm(x, gamma, trained(fill(graph, {channels}, 0))).y;
  }
  // If the size changes, the shortcut takes every second pixel and adds channels of zeros.
  Output block(Output x, int64_t channels, int64_t stride) {
    const Output y = convolved(relu(convolved(x, channels, stride)), channels, 1);
    if (stride > 1) {
      const int64_t more = (channels - x.shape()[3]) / 2;
      x = pad(average_pool(x, {.size = {1}, .strides = {stride}}), {0, 0, 0, more},
              {0, 0, 0, more});
    }
    return relu(x + y);
  }
};

}  // namespace

TEST_CASE("ResNet-20 can be written: its parameters and gradients have the shapes of the paper") {
  ResNet net(8);
  CHECK(net.logits.shape() == Shape{8, 10});
  int64_t count = 0;
  for (const Output& one : net.parameters) count += one.shape().size();
  CHECK(count == 269'722);  // the paper's 0.27 M
  const std::vector<Output> slopes = gradients({net.loss}, net.parameters);
  REQUIRE(slopes.size() == 59);  // 20 weights, 19 gammas and betas, one bias
  for (size_t i = 0; i < slopes.size(); ++i) CHECK(slopes[i].shape() == net.parameters[i].shape());
}

TEST_CASE("a training step of ResNet-20 decreases the loss") {
  ResNet net(8);
  const Output update = minimize(net.loss, sgd(0.05));
  Session session = Session::local(net.graph, {.threads = 2});
  Tensor pixels = Tensor::empty(DType::f32, net.images.shape());
  for (int64_t i = 0; i < pixels.size(); ++i)
    pixels.mutable_data<float>()[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)));
  const Tensor classes = Tensor::of<int64_t>({0, 1, 2, 3, 4, 5, 6, 7}, {8});
  const auto step = [&] {
    return session.run({net.loss, update}, {{net.images, pixels}, {net.labels, classes}})[0]
        .item<float>();
  };
  const float first = step(), second = step();
  CHECK(std::isfinite(first));
  CHECK(first > 1);  // about log(10): an untrained net of ten classes
  CHECK(second < first);
}

}  // namespace troupe
