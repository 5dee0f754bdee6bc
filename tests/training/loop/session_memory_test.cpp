// The device memory that a session's parameters take over the steps, and that each parameter has
// initial values of its own.

#include "actors/master/session_state.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

// Three layers with few examples: nearly all memory holds parameters. All parameters fill blocks of
// the same size, so that none takes the larger block of another one.
struct Layers {
  static constexpr int64_t kBytes = 3 * 512 * 512 * int64_t{4};
  Graph graph;
  Output x = constant(graph, Tensor::zeros(DType::f32, {2, 512}));
  Output loss;
  Output update;
  explicit Layers(const Optimizer& optimizer) {
    const auto layer = [&](const char* name, const Shape& shape, int64_t seed) {
      return parameter(name, truncated_normal(graph, shape, 0, 0.05, seed));
    };
    Output y = relu(matmul(x, layer("u", {512, 512}, 1)));
    y = matmul(relu(matmul(y, layer("v", {512, 512}, 2))), layer("w", {512, 512}, 3));
    loss = reduce_mean(square(add(y, constant(graph, Tensor::scalar<float>(1)))));
    update = minimize(loss, optimizer);
  }
};

double reserved(Session& session) {
  return static_cast<double>(session.state().process->cpu().memory().stats().reserved_bytes) /
         static_cast<double>(Layers::kBytes);
}

// The peak of memory in use since the last call.
double peak(Session& session) {
  return static_cast<double>(session.state().process->cpu().memory().take_peak()) /
         static_cast<double>(Layers::kBytes);
}

}  // namespace

TEST_CASE("a session holds each parameter and its gradient, and no third copy, in any step") {
  for (const Optimizer& optimizer : {sgd(0.1), momentum(0.1)}) {
    Layers layers(optimizer);
    Session session = Session::local(layers.graph, {.threads = 1});
    const Callable step = session.prepare({layers.loss, layers.update});
    for (int i = 0; i < 6; ++i) step({});
    CHECK(reserved(session) < 2.4);
    session.state().process->cpu().memory().reset_peak();
    for (int i = 0; i < 3; ++i) step({});
    CHECK(peak(session) < 2.3);
  }
}

TEST_CASE("two lanes hold at once what one does, however many nodes are ready") {
  const auto most = [](int threads) {
    Graph graph;
    const Output images = constant(graph, Tensor::zeros(DType::f32, {16, 64, 64, 16}));  // 4 MiB
    const auto layer = [&](const Output& x, const std::string& name) {
      const Output w = parameter(name, truncated_normal(graph, {3, 3, 16, 16}, 0, 0.05, 1));
      return max_pool2d(relu(conv2d(x, w)));
    };
    const Output x = reshape(layer(layer(images, "a"), "b"), {16, 4096});
    const Output w = parameter("w", truncated_normal(graph, {4096, 256}, 0, 0.05, 1));  // 4 MiB
    const Output loss = reduce_mean(square(matmul(x, w)));
    Session session = Session::local(graph, {.threads = threads});
    const Callable step = session.prepare({loss, minimize(loss, sgd(0.01))});
    session.reset_peaks();
    for (int i = 0; i < 20; ++i) step({});
    return session.device_states()[0].peak_bytes;
  };
  // Equal, except for the scratch memory of two running kernels.
  CHECK(most(2) < most(1) + (int64_t{3} << 20) / 2);
}

TEST_CASE("two parameters that begin with the same values are trained apart") {
  Graph graph;
  const Output first = truncated_normal(graph, {300, 100}, 0, 0.05, 1);
  const Output a = parameter("a", first), b = parameter("b", first);
  const Output three = constant(graph, Tensor::scalar<float>(3));
  const Output loss = reduce_sum(subtract(square(a), multiply(b, three)));
  const Output update = minimize(loss, sgd(0.25));
  Session session = Session::local(graph, {.threads = 1});
  session.prepare({loss, update});
  const auto before = parameter_values(session);
  CHECK(same_bits(before.at("a"), before.at("b")));
  for (int step = 0; step < 3; ++step) session.run({loss, update});
  const auto after = parameter_values(session);
  for (const int64_t i : {int64_t{0}, int64_t{12'345}, int64_t{29'999}}) {
    float x = before.at("a").data<float>()[i], y = before.at("b").data<float>()[i];
    for (int step = 0; step < 3; ++step) x -= 0.25f * (2 * x), y -= 0.25f * -3;
    CHECK(after.at("a").data<float>()[i] == doctest::Approx(x).epsilon(1e-6));
    CHECK(after.at("b").data<float>()[i] == doctest::Approx(y).epsilon(1e-6));
  }
}

}  // namespace troupe
