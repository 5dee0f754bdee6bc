// mixed --data DIR: trains a small convolutional network in f32, and in mixed precision with bf16
// and f16 (with a scaled loss), from the same initial values on the same batches. Reports the
// accuracy on the test images and the time of a step. DIR holds train-images-idx3-ubyte.gz and its
// three companions: MNIST as distributed, or colour images [n, height, width, 3] in files of these
// names.
#include <algorithm>

#include "bench/bench.hpp"
#include "troupe/data.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"

namespace troupe::bench {
namespace {

constexpr int64_t kBatch = 64;

// Images [n, height, width, channels] in [0, 1], with their labels.
Dataset read_set(const std::string& dir, const std::string& which) {
  const Tensor images = read_idx(dir + "/" + which + "-images-idx3-ubyte.gz");
  const Tensor labels = read_idx(dir + "/" + which + "-labels-idx1-ubyte.gz");
  if (images.dtype() != DType::u8 || images.ndim() < 3 || labels.dtype() != DType::u8)
    throw Error(Errc::bad_data, dir, ": wants images and labels of bytes");
  const Shape shape{images.dim(0), images.dim(1), images.dim(2),
                    images.ndim() == 4 ? images.dim(3) : 1};
  Dataset out{Tensor::empty(DType::f32, shape), Tensor::empty(DType::i64, {labels.size()})};
  for (int64_t i = 0; i < images.size(); ++i)
    out.features.mutable_data<float>()[i] = static_cast<float>(images.data<uint8_t>()[i]) / 255;
  for (int64_t i = 0; i < labels.size(); ++i)
    out.labels.mutable_data<int64_t>()[i] = labels.data<uint8_t>()[i];
  return out;
}

struct Built {
  Output images, labels, classes, loss, update;
};

Built build(Graph& graph, const Shape& images, bool training, DType compute, int64_t seed,
            double rate) {
  const auto scope = graph.scope({.name = training ? "training" : "test"});
  const auto mixed = mixed_precision(graph, compute);
  nn::Model model(graph, {.training = training, .seed = seed});
  Built out;
  out.images = placeholder(graph, DType::f32, {-1, images[1], images[2], images[3]}, "images");
  out.labels = placeholder(graph, DType::i64, {-1}, "labels");
  const nn::ConvOptions plain = {.bias = false};
  Output x = relu(nn::batch_norm(model, nn::conv2d(model, out.images, 32, 3, plain)));
  x = relu(nn::batch_norm(model, nn::conv2d(model, max_pool2d(x), 64, 3, plain)));
  x = relu(nn::dense(model, nn::flatten(max_pool2d(x)), 128));
  const Output logits = nn::dense(model, x, 10);
  out.classes = argmax(logits);
  if (!training) return out;
  out.loss = reduce_mean(softmax_cross_entropy(logits, out.labels));
  const Optimizer optimizer = adam(rate);
  out.update = model.with_updates(compute == DType::f16 ? minimize_scaled(out.loss, optimizer)
                                                        : minimize(out.loss, optimizer));
  return out;
}

double accuracy_percent(Session& session, const Built& test, const Dataset& data) {
  int64_t right = 0;
  for (int64_t at = 0; at < data.size(); at += 500) {
    const Dataset part = data.rows(at, std::min(at + 500, data.size()));
    const Tensor classes = session.run({test.classes}, {{test.images, part.features}})[0];
    for (int64_t i = 0; i < classes.size(); ++i)
      right += classes.data<int64_t>()[i] == part.labels.data<int64_t>()[i];
  }
  return 100 * static_cast<double>(right) / static_cast<double>(data.size());
}

}  // namespace

int mixed(const Options& options) {
  const std::string dir = options.text("data", "");
  if (dir.empty()) throw Error(Errc::invalid_argument, "mixed wants --data DIR");
  const std::string only = options.text("compute", "");
  const int64_t steps = options.integer("steps", 1000), seed = options.integer("seed", 1);
  const int64_t threads = options.integer("threads", 1);
  if (steps < 1 || threads < 1)
    throw Error(Errc::invalid_argument, "--steps and --threads want at least 1");
  const Dataset train = read_set(dir, "train"), test = read_set(dir, "t10k");
  const Batches batches(train, {.batch_size = kBatch, .seed = static_cast<uint64_t>(seed)});
  for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
    if (!only.empty() && only != to_string(compute)) continue;
    Graph graph;
    const Shape shape = train.features.shape();
    const Built tower = build(graph, shape, true, compute, seed, 1e-3);
    const Built net = build(graph, shape, false, compute, seed, 0);
    Session session = Session::local(graph, {.threads = static_cast<int>(threads)});
    const Callable step = session.prepare({tower.loss, tower.update}, {tower.images, tower.labels});
    std::vector<double> times;
    double loss = 0;
    for (int64_t i = 0; i < steps; ++i) {
      const Batch batch = batches.at(i, 0);
      const auto begin = std::chrono::steady_clock::now();
      loss = step({batch.features, batch.labels})[0].item<float>();
      times.push_back(seconds_since(begin));
    }
    const std::vector<std::pair<std::string, std::string>> config = {
        {"compute", detail::concat("\"", compute, "\"")},
        {"steps", std::to_string(steps)},
        {"seed", std::to_string(seed)},
        {"threads", std::to_string(threads)}};
    report(options, "mixed", "accuracy", accuracy_percent(session, net, test), "%", config);
    report(options, "mixed", "last_loss", loss, "", config);
    report(options, "mixed", "step_ms", 1e3 * quantile(times, 0.5), "ms", config);
  }
  return 0;
}

}  // namespace troupe::bench
