// Warnings about the graph of a training call: running averages that do not move, and parameters
// that nothing reads.
#include <mutex>
#include <string>

#include "tests/support/refusal.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

// A network with a batch norm, and the warnings of a session that runs it.
struct Net {
  Graph graph;
  nn::Model model{graph, {.training = true}};
  Output x = placeholder(graph, DType::f32, {-1, 2}, "x");
  Output y, loss;
  std::mutex mutex;
  std::string told;

  Net() {
    y = nn::dense(model, nn::batch_norm(model, x), 1);
    loss = reduce_mean(square(y));
  }
  std::string warnings(const Output& fetch) {
    const LogSink sink = [this](LogLevel, const std::string& line) {
      const std::lock_guard lock(mutex);
      told += line + "\n";
    };
    Session session =
        Session::local(graph, {.threads = 1, .log = sink, .log_level = LogLevel::warn});
    session.run({fetch}, {{x, Tensor::of<float>({1, 2, 3, 5}, {2, 2})}});
    session.close();
    const std::lock_guard lock(mutex);
    return told;
  }
};

}  // namespace

TEST_CASE("a training step that leaves running averages as they are is warned of") {
  Net forgotten;
  const std::string told = forgotten.warnings(minimize(forgotten.loss, sgd(0.1)));
  has(told, "leaves a running average as it is, pass the update through Model::with_updates()");
  has(told, "parameter=batch_norm/mean");

  Net kept;
  CHECK(kept.warnings(kept.model.with_updates(minimize(kept.loss, sgd(0.1)))) == "");
}

TEST_CASE("a run that trains nothing is not warned of") {
  Net net;
  parameter("dens/w", fill(net.graph, {2, 1}, 0));
  CHECK(net.warnings(net.y) == "");
}

TEST_CASE("a table that a gather and a product read is trained without a warning") {
  Net net;
  const Output table = parameter("table", fill(net.graph, {4, 2}, 0.5));
  const Output ids = constant(net.graph, Tensor::of<int64_t>({1, 3}, {2}));
  const Output logits = matmul(gather(table, ids) + net.x, table, {.transpose_b = true});
  const Output loss = reduce_mean(softmax_cross_entropy(logits, ids));
  const auto clipped = clip_by_global_norm(parameter_gradients(loss), 1);
  CHECK(net.warnings(apply_gradients(clipped, sgd(0.1))) == "");
}

TEST_CASE("a parameter that nothing reads is warned of, with the nearest name") {
  Net net;
  parameter("dens/w", fill(net.graph, {2, 1}, 0));
  const std::string told = net.warnings(net.model.with_updates(minimize(net.loss, sgd(0.1))));
  has(told, "no node reads a parameter, so its values have no effect: parameter=dens/w");
  has(told, "nearest=dense/w");
}

}  // namespace troupe
