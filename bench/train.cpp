// train --model mlp [--threads N]: one training step in one process: 784-1024-1024-10, batch 128,
// SGD.
#include <sys/resource.h>

#include <fstream>

#include "bench/bench.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/train.hpp"

namespace troupe::bench {
namespace {

constexpr int64_t kBatch = 128;
constexpr int64_t kSizes[] = {784, 1024, 1024, 10};

int64_t peak_rss_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

Output dense(Graph& g, Output x, int layer) {
  const int64_t in = kSizes[layer], out = kSizes[layer + 1];
  Output w =
      parameter(detail::concat("w", layer), truncated_normal(g, {in, out}, 0, 0.05, layer + 1));
  Output b = parameter(detail::concat("b", layer), fill(g, {out}, 0));
  return bias_add(matmul(x, w), b);
}

}  // namespace

int train(const Options& options) {
  const std::string model = options.text("model", "mlp");
  if (model != "mlp")
    throw Error(Errc::invalid_argument, "there is no model \"", model, "\"; there is mlp");
  const int64_t threads = options.integer("threads", 1);
  if (threads < 1) throw Error(Errc::invalid_argument, "--threads wants at least 1, got ", threads);
  Graph g;
  Output x = placeholder(g, DType::f32, {kBatch, 784}, "x");
  Output labels = placeholder(g, DType::i64, {kBatch}, "labels");
  Output h = relu(dense(g, x, 0));
  h = relu(dense(g, h, 1));
  Output loss = reduce_mean(softmax_cross_entropy(dense(g, h, 2), labels));
  Output update = minimize(loss, sgd(0.01));
  Session session = Session::local(g, {.threads = static_cast<int>(threads)});
  Callable step = session.prepare({loss, update}, {x, labels});

  std::vector<float> pixels(kBatch * 784);
  std::vector<int64_t> classes(kBatch);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<float>(i * 2654435761u % 256) / 255;
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int64_t>(i % 10);
  const std::vector<Tensor> feeds = {Tensor::of<float>(pixels, {kBatch, 784}),
                                     Tensor::of<int64_t>(classes, {kBatch})};
  const float first = step(feeds)[0].item<float>();
  for (int i = 0; i < 10; ++i) step(feeds);
  std::vector<double> times;
  float last = 0;
  for (int i = 0; i < 100; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    last = step(feeds)[0].item<float>();
    times.push_back(seconds_since(begin));
  }
  if (!(last < first))
    throw InternalError("the loss went from ", first, " to ", last, ": nothing was learned");
  const double median = quantile(times, 0.5);
  // Forward, and both gradients except the first layer's input gradient; two flops per
  // multiply-add.
  double flop = 0;
  for (int layer = 0; layer < 3; ++layer)
    flop += 2.0 * kBatch * static_cast<double>(kSizes[layer] * kSizes[layer + 1]) *
            (layer == 0 ? 2 : 3);
  const auto say = [&](const std::string& metric, double value, const std::string& unit,
                       const std::string& statistic) {
    report(options, "train", metric, value, unit,
           {{"model", "\"mlp\""},
            {"threads", std::to_string(threads)},
            {"batch", std::to_string(kBatch)},
            {"statistic", "\"" + statistic + "\""}});
  };
  say("step_ms", median * 1e3, "ms", "median");
  say("step_ms_best", quantile(times, 0) * 1e3, "ms", "minimum");
  say("examples_per_s", kBatch / median, "1/s", "median");
  say("gflops", flop / median / 1e9, "GFLOP/s", "median");
  say("peak_rss_mib", static_cast<double>(peak_rss_kib()) / 1024, "MiB", "maximum");
  return 0;
}

}  // namespace troupe::bench
