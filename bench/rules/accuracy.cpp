// The network, its gradients by graph/, and the learning rates that are tried.
#include "bench/rules/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/rules/experiments.hpp"
#include "training/parameters/layout.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

constexpr int64_t kPixels = 64, kHidden = 32, kClasses = 10, kTest = 300, kBatch = 16;
constexpr double kEvery = 4;  // virtual seconds from look to look

class Network {
 public:
  Network() : session_(Session::local(graph_, {.threads = 1})) {
    const Output images = placeholder(graph_, DType::f32, {-1, kPixels}, "images"),
                 labels = placeholder(graph_, DType::i64, {-1}, "labels");
    std::vector<Output> weights;
    for (const ParameterSpec& p : parameters(0))
      weights.push_back(placeholder(graph_, p.dtype, p.shape, p.name));
    const Output hidden = relu(matmul(images, weights[0]) + weights[1]);
    const Output logits = matmul(hidden, weights[2]) + weights[3];
    const Output loss = reduce_mean(softmax_cross_entropy(logits, labels));
    std::vector<Output> feeds = weights;
    feeds.push_back(images);
    logits_ = session_.prepare({logits}, feeds);
    feeds.push_back(labels);
    gradients_ = session_.prepare(troupe::gradients({loss}, weights), feeds);
  }

  static std::vector<ParameterSpec> parameters(double learning_rate) {
    const Optimizer optimizer = sgd(learning_rate);
    return {{"w1", DType::f32, {kPixels, kHidden}, optimizer},
            {"b1", DType::f32, {kHidden}, optimizer},
            {"w2", DType::f32, {kHidden, kClasses}, optimizer},
            {"b2", DType::f32, {kClasses}, optimizer}};
  }
  // Weights of a normal distribution, scaled by their inputs (He et al. 2015); biases of zero.
  static std::vector<Tensor> initial() {
    std::vector<Tensor> out;
    SplitMix random{1};
    for (const ParameterSpec& p : parameters(1)) {
      const double scale =
          p.shape.ndim() == 1 ? 0 : std::sqrt(2.0 / static_cast<double>(p.shape[0]));
      std::vector<float> values;
      for (int64_t i = 0; i < p.shape.size(); ++i)
        values.push_back(static_cast<float>(scale * normal_of(random)));
      out.push_back(Tensor::of<float>(values, {p.shape.size()}));
    }
    return out;
  }

  std::vector<Tensor> gradients(std::vector<Tensor> weights, const Batch& batch) const {
    feed(weights, batch.features);
    weights.push_back(batch.labels);
    return gradients_(weights);
  }
  double accuracy(std::vector<Tensor> weights, const Dataset& test) const {
    feed(weights, test.features);
    const Tensor logits = logits_(weights)[0];
    const float* row = logits.data<float>();
    int64_t right = 0;
    for (int64_t i = 0; i < test.size(); ++i, row += kClasses)
      right += std::max_element(row, row + kClasses) - row == test.labels.data<int64_t>()[i];
    return 100.0 * static_cast<double>(right) / static_cast<double>(test.size());
  }

 private:
  static void feed(std::vector<Tensor>& weights, const Tensor& images) {
    const std::vector<ParameterSpec> specs = parameters(0);
    for (size_t i = 0; i < specs.size(); ++i) weights[i] = weights[i].reshaped(specs[i].shape);
    weights.push_back(images.reshaped({images.dim(0), kPixels}));
  }

  Graph graph_;
  Session session_;
  Callable logits_, gradients_;
};

Learning learn(const Network& network, const Dataset& digits, const WorkerSettings& settings,
               double learning_rate, double seconds) {
  const Dataset test = digits.rows(digits.size() - kTest, digits.size());
  const Batches batches(digits.rows(0, digits.size() - kTest),
                        {.batch_size = kBatch, .replicas = settings.workers, .seed = 1});
  VirtualWorkers workers(settings, split_parameters(Network::parameters(learning_rate), 2),
                         Network::initial(),
                         [&](int32_t worker, int64_t step, const std::vector<Tensor>& values) {
                           return network.gradients(values, batches.at(step, worker));
                         });
  Learning out{.learning_rate = learning_rate};
  for (double now = 0; now <= seconds; now += kEvery) {
    workers.run_until(now);
    out.accuracy.emplace_back(now, network.accuracy(workers.values(), test));
    if (out.reached < 0 && out.accuracy.back().second >= kAccuracy) out.reached = now;
  }
  out.updates = static_cast<int64_t>(workers.updates().size());
  out.staleness = workers.mean_staleness();
  return out;
}

// The sooner at the accuracy, or the more accurate at the end if neither reaches it.
bool better(const Learning& a, const Learning& b) {
  if (a.reached < 0 && b.reached < 0) return a.accuracy.back().second > b.accuracy.back().second;
  return a.reached >= 0 && (b.reached < 0 || a.reached < b.reached);
}

}  // namespace

Learning learn_digits(const Dataset& digits, const Aggregation& rule, const StepTimes& times,
                      double seconds) {
  const Network network;
  const WorkerSettings settings{.rule = rule,
                                .workers = kLearners,
                                .times = times,
                                .transfer_seconds = published::kTransferSeconds};
  Learning best;
  for (const double rate : {0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0}) {
    const Learning tried = learn(network, digits, settings, rate, seconds);
    if (best.accuracy.empty() || better(tried, best)) best = tried;
  }
  return best;
}

}  // namespace troupe::bench
