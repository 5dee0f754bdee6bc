// Which layouts a training step of images goes through: none but one.
#include <doctest/doctest.h>

#include "bench/models.hpp"
#include "ops/layout_counts.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/train.hpp"
#include "troupe/trainer.hpp"

namespace troupe {
namespace {

LayoutCounts operator-(const LayoutCounts& a, const LayoutCounts& b) {
  return {.transposes = a.transposes - b.transposes,
          .filter_reorders = a.filter_reorders - b.filter_reorders,
          .image_reorders = a.image_reorders - b.image_reorders};
}

// Two steps and then what the third one has moved; the losses of all.
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

}  // namespace troupe
