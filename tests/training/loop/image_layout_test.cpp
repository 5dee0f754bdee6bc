// The layout changes in a training step of images: none except one if the model is written for that
// layout; if it is written for another one, only at its borders.
#include <doctest/doctest.h>

#include "bench/models.hpp"
#include "ops/support/layout_counts.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

LayoutCounts operator-(const LayoutCounts& a, const LayoutCounts& b) {
  return {.transposes = a.transposes - b.transposes,
          .filter_reorders = a.filter_reorders - b.filter_reorders,
          .image_reorders = a.image_reorders - b.image_reorders};
}

// Runs three steps; returns all losses, and the layout changes of the third step.
struct Steps {
  std::vector<float> losses;
  LayoutCounts moved;
};
Steps steps_of(Graph& graph, Output loss, Output update, const Feeds& feeds, bool passes = true) {
  Session session = Session::local(graph, {.threads = 1, .cuda = false, .passes = passes});
  Steps steps;
  LayoutCounts before;
  for (int step = 0; step < 3; ++step) {
    before = layout_counts();
    steps.losses.push_back(session.run({loss, update}, feeds)[0].item<float>());
  }
  steps.moved = layout_counts() - before;
  return steps;
}

// A small residual network with images [batch, channels, height, width] in all of the model's own
// code, and transposes around each convolution and each norm, as importers of such models write it.
struct ChannelsFirst {
  Graph graph;
  Output images = placeholder(graph, DType::f32, {4, 3, 8, 8}, "images");
  Output labels = placeholder(graph, DType::i64, {4}, "labels");
  Output loss, update;
  int layers = 0;

  ChannelsFirst() {
    Output x = relu(layer(images, 8));
    for (int block = 0; block < 3; ++block) x = relu(layer(relu(layer(x, 8)), 8) + x);
    const Output pixels = reduce_mean(x, {.axes = {2, 3}});
    const Output weights = parameter("weights", random_normal(graph, {8, 10}));
    loss = reduce_mean(softmax_cross_entropy(matmul(pixels, weights), labels));
    update = minimize(loss, sgd(0.1));
  }
  Output layer(Output x, int64_t out) {
    const int n = layers++;
    const auto last = [](Output y) { return transpose(y, {0, 2, 3, 1}); };
    const auto first = [](Output y) { return transpose(y, {0, 3, 1, 2}); };
    const auto named = [&](const char* what) { return detail::concat(what, n); };
    const Output filter =
        parameter(named("filter"), random_normal(graph, {3, 3, x.shape()[1], out}, 0, 0.3, n + 1));
    const Output y = first(conv2d(last(x), filter));
    return first(batch_norm(last(y), parameter(named("gamma"), fill(graph, {out}, 1)),
                            parameter(named("beta"), fill(graph, {out}, 0)))
                     .y);
  }
  Feeds feeds() const {
    Tensor pixels = Tensor::empty(DType::f32, {4, 3, 8, 8});
    for (int64_t i = 0; i < pixels.size(); ++i)
      pixels.mutable_data<float>()[i] = static_cast<float>(i * 7919 % 256) / 256;
    return {{images, pixels}, {labels, Tensor::of<int64_t>({1, 5, 0, 9}, {4})}};
  }
};

}  // namespace

TEST_CASE("a warm step of resnet20 reorders no images, and no filter but to pack it") {
  Graph graph;
  const bench::Model model = bench::make_model(graph, "resnet20");
  Feeds feeds;
  for (size_t i = 0; i < model.fed.size(); ++i)
    feeds.emplace_back(model.fed[i].second, model.feeds[i]);
  const Steps steps = steps_of(graph, model.loss, model.update, feeds);
  CHECK(steps.moved.transposes == 0);
  CHECK(steps.moved.image_reorders == 0);
  // 19 convolutions: forward, back to the filter, and all but the first one back to the images.
  CHECK(steps.moved.filter_reorders <= 19 + 19 + 18);
}

TEST_CASE("a step of a model for channels first transposes at the model's borders, to the bit") {
  ChannelsFirst model;
  const Steps plain = steps_of(model.graph, model.loss, model.update, model.feeds(), false);
  const Steps moved = steps_of(model.graph, model.loss, model.update, model.feeds());
  CHECK(plain.losses == moved.losses);
  CHECK(plain.moved.transposes == 55);
  // The images, the input of the mean, and the gradient of the mean.
  CHECK(moved.moved.transposes == 3);
  CHECK(moved.moved.image_reorders == 0);
}

}  // namespace troupe
