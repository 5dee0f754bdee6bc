// The effect of passes on a program: fewer nodes, and nothing else. Values, weights and names are
// those of the original graph, locally and on a cluster.

#include <algorithm>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/engine/replica_towers.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

// Two towers of a small network, with work for every pass: constants, ones, equal nodes.
struct Network {
  Graph graph;
  std::vector<Tower> towers;
  explicit Network(const std::vector<std::string>& devices) {
    const Output w0 = truncated_normal(graph, Shape{4, 6}, 0, 0.5, 11);
    const Output v0 = truncated_normal(graph, Shape{6, 3}, 0, 0.5, 12);
    for (size_t i = 0; i < devices.size(); ++i) {
      const auto replica = static_cast<int64_t>(i);
      const auto scope = graph.scope(
          {.name = detail::concat("tower", i), .device = devices[i], .replica = replica});
      const Output x = placeholder(graph, DType::f32, {8, 4}, "x");
      const Output y = placeholder(graph, DType::i64, {8}, "y");
      const Output scale = constant(graph, Tensor::scalar(0.25F)) * 4.0;  // times one
      const Output h = dropout(identity(x * scale), 0.25, 5);
      const Output hidden = tanh(matmul(h, parameter("w", w0)));
      const Output twice = add(relu(hidden), relu(hidden));
      const Output logits = matmul(reshape(reshape(twice, {48}), {8, 6}), parameter("v", v0));
      const Output loss = reduce_mean(softmax_cross_entropy(logits, y));
      towers.push_back(
          {replica, loss, minimize(loss, momentum(0.1, 0.9)), {x, y}, [replica](int64_t s) {
             return small_batch(replica, s);
           }});
    }
  }
};

std::string trained_locally(bool passes) {
  Network network({"", ""});
  Session session = Session::local(network.graph, {.threads = 2, .passes = passes});
  return train(session, network.towers, {.steps = 40}).weights_sha256;
}

std::string trained_on_cluster(bool passes) {
  const std::vector<std::string> workers = {"/job:worker/task:0", "/job:worker/task:1"};
  LocalCluster cluster({"/job:ps/task:0", workers[0], workers[1]});
  Network network(workers);
  ConnectOptions options;
  options.process.passes = passes;
  Session session = cluster.connect(network.graph, {}, options);
  return train(session, network.towers, {.steps = 40}).weights_sha256;
}

// Layers large enough to be cut over lanes, and the gradients of their parameters.
struct Layers {
  Graph graph;
  std::vector<Output> wanted;
  Layers() {
    const auto numbers = [&](const Shape& shape, int64_t seed) {
      return random_uniform(graph, shape, -1, 1, seed);
    };
    const Output x = numbers({40, 24, 24, 3}, 1), f = numbers({5, 5, 3, 16}, 2);
    const Output b = numbers({16}, 3), w = numbers({12 * 12 * 16, 300}, 4), c = numbers({300}, 5);
    const Output y = max_pool2d(relu(bias_add(conv2d(x, f), b)));
    const Output h = tanh(bias_add(matmul(reshape(y, {40, 12 * 12 * 16}), w) * 0.01, c));
    const Output loss = reduce_mean(square(h) + exp(negate(h)));
    wanted = gradients({loss}, {x, f, b, w, c});
    wanted.push_back(loss);
  }
};

std::vector<std::string> names(const Session& session, const Callable& call) {
  std::vector<std::string> out;
  for (const PlacedNode& node : session.placement(call)) out.push_back(node.node);
  return out;
}

}  // namespace

TEST_CASE("synchronous training ends with the same bits with passes on and off, here and there") {
  const std::string plain = trained_locally(false);
  CHECK(trained_locally(true) == plain);
  CHECK(trained_on_cluster(true) == plain);
  CHECK(trained_on_cluster(false) == plain);
}

TEST_CASE("fused layers have the same bits on any number of threads, and as those one by one") {
  Layers layers;
  const std::vector<Tensor> plain = Session::local(layers.graph, {.threads = 1, .passes = false})
                                        .run(layers.wanted, {}, {.seed = 1});
  for (const int threads : {1, 2, 4}) {
    Session session = Session::local(layers.graph, {.threads = threads});
    for (int round = 0; round < 3; ++round) {
      const std::vector<Tensor> got = session.run(layers.wanted, {}, {.seed = 1});
      for (size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i], plain[i]));
    }
  }
}

TEST_CASE("passes leave fewer nodes to run, and what is fetched and fed as it was") {
  Network network({""});
  const Tower& tower = network.towers[0];
  Session plain = Session::local(network.graph, {.threads = 1, .passes = false});
  Session passed = Session::local(network.graph, {.threads = 1});
  const auto before = names(plain, plain.prepare({tower.loss, tower.update}, tower.feeds));
  const auto after = names(passed, passed.prepare({tower.loss, tower.update}, tower.feeds));
  CHECK(after.size() + 5 <= before.size());
  for (const std::string& name : after)
    CHECK_MESSAGE(std::find(before.begin(), before.end(), name) != before.end(), name);
  for (const Output& fetched : {tower.loss, tower.update})
    CHECK(std::find(after.begin(), after.end(), fetched.name()) != after.end());
}

TEST_CASE("a prepared call runs on while its graph grows, with other calls of other fetches") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {1}, "x");
  const Output y = identity(square(x)) * 1.0;
  Session session = Session::local(g, {.threads = 1});
  const Callable first = session.prepare({y}, {x});
  const std::vector<Tensor> three = {Tensor::of<float>({3}, {1})};
  const Output z = add(square(x), y);
  CHECK(session.run({z}, {{x, three[0]}})[0].item<float>() == 18);
  CHECK(session.run({y, z}, {{x, three[0]}})[1].item<float>() == 18);
  CHECK(session.run({z}, {{y, three[0]}, {x, three[0]}})[0].item<float>() == 12);
  CHECK(first(three)[0].item<float>() == 9);
}

TEST_CASE("what fails while a constant is made fails in the step, by the name of its node") {
  Graph g;
  const Output one = constant(g, Tensor::scalar<int32_t>(1));
  const Output none = constant(g, Tensor::scalar<int32_t>(0));
  const Output bad = g.add({.op = "Divide", .inputs = {one, none}, .name = "share"});
  const Output y = negate(bad), good = negate(one);
  Session session = Session::local(g, {.threads = 1});
  const Callable call = session.prepare({y});
  const Refusal refused = refusal_of([&] { call(); });
  CHECK(refused.text.find("share") != refused.text.npos);
  CHECK(session.run({good})[0].item<int32_t>() == -1);
}

}  // namespace troupe
