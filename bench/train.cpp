// train --model M [--threads N] [--passes on|off]: one training step in one process, with SGD.
//   mlp: 784-1024-1024-10, batch 128
//   cnn: 28x28x1, 5x5x32, pool, 5x5x64, pool, 512, 10, batch 64
#include <sys/resource.h>

#include <fstream>

#include "bench/bench.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/train.hpp"

namespace troupe::bench {
namespace {

int64_t peak_rss_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Model {
  Graph& g;
  int64_t batch;
  Output images, logits = {};
  // Of a step: forward, and both gradients of each layer but the first, whose input needs none; two
  // for a multiply-add.
  double flop = 0;

  Model(Graph& graph, int64_t batch, const Shape& image)
      : g(graph), batch(batch), images(placeholder(graph, DType::f32, image, "x")) {}

  Output weight(const Shape& shape) {
    return parameter(detail::concat("w", layers_),
                     truncated_normal(g, shape, 0, 0.05, layers_ + 1));
  }
  Output biased(Output x, int64_t out) {
    return bias_add(x, parameter(detail::concat("b", layers_++), fill(g, {out}, 0)));
  }
  Output dense(Output x, int64_t in, int64_t out) {
    count(static_cast<double>(batch * in * out));
    return biased(matmul(x, weight({in, out})), out);
  }
  Output convolution(Output x, int64_t side, int64_t in, int64_t out) {
    constexpr int64_t kWindow = 5;
    count(static_cast<double>(batch * side * side * kWindow * kWindow * in * out));
    return relu(biased(conv2d(x, weight({kWindow, kWindow, in, out})), out));
  }

 private:
  void count(double products) { flop += 2 * products * (layers_ == 0 ? 2 : 3); }
  int layers_ = 0;
};

Model mlp(Graph& g) {
  Model m(g, 128, {128, 784});
  const Output h = relu(m.dense(m.images, 784, 1024));
  m.logits = m.dense(relu(m.dense(h, 1024, 1024)), 1024, 10);
  return m;
}

Model cnn(Graph& g) {
  Model m(g, 64, {64, 28, 28, 1});
  Output x = max_pool2d(m.convolution(m.images, 28, 1, 32));
  x = max_pool2d(m.convolution(x, 14, 32, 64));
  m.logits = m.dense(relu(m.dense(reshape(x, {64, 7 * 7 * 64}), 7 * 7 * 64, 512)), 512, 10);
  return m;
}

}  // namespace

int train(const Options& options) {
  const std::string name = options.text("model", "mlp");
  if (name != "mlp" && name != "cnn")
    throw Error(Errc::invalid_argument, "there is no model \"", name, "\"; there are mlp and cnn");
  const int64_t threads = options.integer("threads", 1);
  const std::string passes = options.text("passes", "on");
  if (passes != "on" && passes != "off")
    throw Error(Errc::invalid_argument, "--passes is on or off, not \"", passes, "\"");
  if (threads < 1) throw Error(Errc::invalid_argument, "--threads wants at least 1, got ", threads);
  Graph g;
  const Model model = name == "mlp" ? mlp(g) : cnn(g);
  const int64_t batch = model.batch;
  Output labels = placeholder(g, DType::i64, {batch}, "labels");
  Output loss = reduce_mean(softmax_cross_entropy(model.logits, labels));
  Output update = minimize(loss, sgd(0.01));
  Session session =
      Session::local(g, {.threads = static_cast<int>(threads), .passes = passes == "on"});
  Callable step = session.prepare({loss, update}, {model.images, labels});

  std::vector<float> pixels(static_cast<size_t>(batch * 784));
  std::vector<int64_t> classes(static_cast<size_t>(batch));
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<float>(i * 2654435761u % 256) / 255;
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int64_t>(i % 10);
  const std::vector<Tensor> feeds = {Tensor::of<float>(pixels, model.images.shape()),
                                     Tensor::of<int64_t>(classes, {batch})};
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
  const auto say = [&](const std::string& metric, double value, const std::string& unit,
                       const std::string& statistic) {
    report(options, "train", metric, value, unit,
           {{"model", "\"" + name + "\""},
            {"threads", std::to_string(threads)},
            {"batch", std::to_string(batch)},
            {"statistic", "\"" + statistic + "\""}});
  };
  say("step_ms", median * 1e3, "ms", "median");
  say("step_ms_best", quantile(times, 0) * 1e3, "ms", "minimum");
  say("examples_per_s", static_cast<double>(batch) / median, "1/s", "median");
  say("gflops", model.flop / median / 1e9, "GFLOP/s", "median");
  say("peak_rss_mib", static_cast<double>(peak_rss_kib()) / 1024, "MiB", "maximum");
  return 0;
}

}  // namespace troupe::bench
