// Trains the digits in f16 and kills a worker after steps were skipped and the loss scale was
// backed off: the same steps are skipped again, and the bits are those of a run without kills.

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "troupe/data.hpp"
#include "troupe/nn.hpp"

namespace troupe {
namespace {

constexpr int64_t kSteps = 14, kKillAt = 9;

const Batches& digits() {
  static const Batches batches(load_digits(source_dir() + "/data/digits.csv.gz"),
                               {.batch_size = 16, .replicas = 2, .seed = 1});
  return batches;
}

// 50 times as bright in some steps, so that gradients exceed the range of f16: in steps 3 and 6 of
// both towers, and in step 7 of one of them.
std::vector<Tensor> images(int64_t step, int64_t replica) {
  const Batch batch = digits().at(step, replica);
  Tensor features = Tensor::empty(DType::f32, batch.features.shape());
  const float light = step == 3 || step == 6 || (step == 7 && replica == 1) ? 50.0F : 1.0F;
  for (int64_t i = 0; i < features.size(); ++i)
    features.mutable_data<float>()[i] = light * batch.features.data<float>()[i];
  return {features, batch.labels};
}

struct Digits {
  Digits(const LossScale& scale, bool remote) {
    for (int i = 0; i < 2; ++i) {
      const auto scope =
          graph.scope({.name = detail::concat("tower", i),
                       .device = remote ? detail::concat("/job:worker/task:", i) : "",
                       .replica = i});
      const auto mixed = mixed_precision(graph, DType::f16);
      nn::Model model(graph, {.seed = 5});
      const Output x = placeholder(graph, DType::f32, {-1, 8, 8, 1}, "images");
      const Output labels = placeholder(graph, DType::i64, {-1}, "labels");
      const Output h = max_pool2d(relu(nn::conv2d(model, x, 8, 3)));
      const Output logits = nn::dense(model, nn::flatten(h), 10);
      const Output loss = reduce_mean(softmax_cross_entropy(logits, labels));
      towers.push_back(
          {i, loss, minimize_scaled(loss, adam(1e-3), scale), {x, labels}, [i](int64_t step) {
             return images(step, i);
           }});
    }
  }
  Graph graph;
  std::vector<Tower> towers;
};

// The course of a training, step by step.
struct Course {
  std::vector<bool> skipped;      // it changed no weight
  std::vector<double> exponents;  // of the loss scale, if it moves
  std::string weights;
  int lost = 0;  // how often the killed worker's step was repeated
};

Course course(const LossScale& scale, LocalCluster* cluster) {
  Digits net(scale, cluster != nullptr);
  Session session =
      cluster ? cluster->connect(net.graph) : Session::local(net.graph, {.threads = 1});
  Course out;
  std::map<std::string, Tensor> before;
  TrainOptions options{.steps = kSteps, .pause_every = 1};
  options.on_pause = [&](const TrainPause&) {
    std::map<std::string, Tensor> now = parameter_values(session);
    if (const auto moving = now.extract("loss_scale"))
      out.exponents.push_back(moving.mapped().data<float>()[0]);
    bool same = !before.empty();
    for (const auto& [name, value] : before) same = same && same_bits(value, now.at(name));
    out.skipped.push_back(same);
    before = std::move(now);
    return true;
  };
  options.on_event = [&](const TrainEvent& e) {
    out.lost += e.text.find("step 9 of replica 0 failed and will be done again") == 0;
  };
  // The first tower's step runs when the second tower's batch is requested.
  bool killed = cluster == nullptr;
  net.towers[1].batch = [&killed, cluster](int64_t step) {
    if (step == kKillAt && !std::exchange(killed, true)) {
      cluster->process(2).stop();
      cluster->restart(2);
    }
    return images(step, 1);
  };
  out.weights = train(session, net.towers, options).weights_sha256;
  return out;
}

void check_killed(const LossScale& scale) {
  const Course expected = course(scale, nullptr);
  LocalCluster cluster(
      {"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1"});
  const Course result = course(scale, &cluster);
  CHECK(result.lost == 1);
  CHECK(result.weights == expected.weights);
  CHECK(result.skipped == expected.skipped);
  CHECK(result.exponents == expected.exponents);
  REQUIRE(expected.skipped.size() == static_cast<size_t>(kSteps));
  // Before the kill some steps were skipped and others were not; afterwards weights changed.
  const auto count = [&](int64_t from, int64_t to) {
    return std::count(expected.skipped.begin() + from, expected.skipped.begin() + to, true);
  };
  CHECK(count(0, kKillAt) >= 2);
  CHECK(count(0, kKillAt) < kKillAt);
  CHECK(count(kKillAt, kSteps) < kSteps - kKillAt);
  if (scale.growth_interval == 0) {
    CHECK(expected.exponents.empty());
  } else {
    CHECK(expected.exponents.at(kKillAt - 1) < std::log2(scale.initial));
    CHECK(expected.exponents.back() >
          *std::min_element(expected.exponents.begin(), expected.exponents.end()));
  }
}

}  // namespace

TEST_CASE(
    "a worker killed after steps in f16 were skipped, under a scale that stays, changes no bit") {
  check_killed({16384, 0});
}

TEST_CASE("a worker killed after the scale of a loss in f16 was backed off changes no bit") {
  check_killed({0x1p24, 3});
}

}  // namespace troupe
