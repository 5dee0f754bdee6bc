// recompute(): the same bits as without it, in less memory, in scopes side by side and nested, in
// branches and in loops.
#include "troupe/graph.hpp"

#include <algorithm>
#include <cmath>

#include "tests/support/refusal.hpp"
#include "tests/support/within.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/ops/networks.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

enum Scopes : uint8_t { none, blocks, nested, whole };

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bits);
}

int64_t times(const std::string& text, const std::string& part) {
  int64_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// In a recomputed scope or in the open one: node names, and so random numbers, are the same.
const RunOptions kSeeded{.seed = 1};  // all runs draw the same numbers

std::optional<bool> in(bool again) { return again ? std::optional(true) : std::nullopt; }

// Three residual blocks with everything that a copy must get right: random numbers, batch
// statistics, views.
struct Blocks {
  Graph graph;
  std::vector<Output> wanted;
  explicit Blocks(Scopes scopes, const std::string& device = "") {
    const auto there = graph.scope({.device = device});
    const auto numbers = [&](const Shape& shape, int64_t seed) {
      return random_uniform(graph, shape, -0.5, 0.5, seed);
    };
    Output x = numbers({8, 12, 12, 4}, 1);
    std::vector<Output> xs = {x};
    const auto all = graph.scope({.recompute = in(scopes == whole)});
    for (int64_t block = 0; block < 3; ++block) {
      const auto outer = graph.scope({.name = detail::concat("block", block),
                                      .recompute = in(scopes == blocks || scopes == nested)});
      const Output f = numbers({3, 3, 4, 4}, 10 + block), gamma = numbers({4}, 20 + block);
      Output y = batch_norm(conv2d(x, f), gamma, fill(graph, {4}, 0.1)).y;
      {
        const auto inner = graph.scope({.recompute = in(scopes == nested)});
        y = tanh(dropout(relu(y), 0.3)) * y;
        y = reshape(square(reshape(y, {8, 144, 4})), {8, 12, 12, 4});
      }
      x = relu(x + y);
      xs.insert(xs.end(), {f, gamma});
    }
    const auto outside = graph.scope({.recompute = false});
    const Output loss = reduce_mean(x * x);
    wanted = gradients({loss}, xs);
    wanted.push_back(loss);
  }
};

}  // namespace

TEST_CASE("what is computed again has the bits of what was kept, however scopes lie") {
  Blocks plain(none);
  const std::vector<Tensor> expected =
      Session::local(plain.graph, {.threads = 1, .passes = false}).run(plain.wanted, {}, kSeeded);
  for (const Scopes scopes : {none, blocks, nested, whole})
    for (const bool passes : {true, false})
      for (const int threads : {1, 2}) {
        CAPTURE(int{scopes});
        CAPTURE(passes);
        CAPTURE(threads);
        Blocks again(scopes);
        Session session = Session::local(again.graph, {.threads = threads, .passes = passes});
        for (int round = 0; round < 3; ++round)
          CHECK(same(session.run(again.wanted, {}, kSeeded), expected));
        const auto costs = recomputed(again.graph, again.wanted);
        CHECK(costs.size() == (scopes == none     ? 0
                               : scopes == whole  ? 1
                               : scopes == nested ? 6
                                                  : 3));
      }
}

TEST_CASE("layers may stand in a scope, and train to the same bits") {
  const auto losses = [](bool again) {
    Graph g;
    nn::Model model(g, {.training = true});
    const Output x = random_uniform(g, {8, 8, 8, 3}, -1, 1, 1);
    Output y = nn::conv2d(model, x, 8, 3);
    for (const int64_t stride : {1, 2}) {
      const auto scope = g.scope({.recompute = in(again)});
      y = nn::dropout(model, nn::residual_block(model, y, 8, {.stride = stride}), 0.2);
    }
    const Output logits = nn::dense(model, reduce_mean(y, {.axes = {1, 2}}), 10);
    const Output labels = constant(g, Tensor::of<int64_t>({0, 1, 2, 3, 4, 5, 6, 7}, {8}));
    const Output loss = reduce_mean(softmax_cross_entropy(logits, labels));
    const Output update = model.with_updates(minimize(loss, momentum(0.1, 0.9)));
    Session session = Session::local(g, {.threads = 1});
    std::vector<Tensor> out;
    for (int i = 0; i < 4; ++i) out.push_back(session.run({loss, update})[0]);
    return out;
  };
  const std::vector<Tensor> expected = losses(false);
  CHECK(expected[3].item<float>() != expected[0].item<float>());
  CHECK(same(losses(true), expected));
}

TEST_CASE("on a device with a queue, too, what is computed again has the bits of what was kept") {
  const std::string device = "/device:shadow:0";
  Blocks plain(none, device), again(blocks, device);
  const ProcessOptions options{.threads = 1, .shadow_devices = 1};
  CHECK(same(Session::local(plain.graph, options).run(plain.wanted),
             Session::local(again.graph, options).run(again.wanted)));
}

TEST_CASE(
    "passes neither merge a copy with what it computes again nor run it before it is needed") {
  Graph g;
  const Output x = placeholder(g, DType::f64, {2}, "x");
  const Output y = within(recompute(g, "block"), [&] { return tanh(exp(x)); });
  const Output dx = gradients({y}, {x})[0];
  const std::string after = explain_passes(g, {dx}, {x}).back().graph;
  CAPTURE(after);
  // exp and tanh run again, on a value of x that waits for the end of the forward half.
  CHECK(after.find("gradients/block/Exp/kept") != after.npos);
  const std::vector<Tensor> got =
      Session::local(g, {.threads = 1}).run({dx}, {{x, Tensor::of<double>({0.25, -1}, {2})}});
  const double e = std::exp(0.25), t = std::tanh(e);
  CHECK(got[0].data<double>()[0] == doctest::Approx((1 - t * t) * e));
}

TEST_CASE("a scope says what it costs and saves") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {64, 100}, "x"), w = fill(g, {100, 50}, 0.01);
  const Output y = within(recompute(g, "block"), [&] { return exp(tanh(matmul(square(x), w))); });
  const Output loss = reduce_sum(square(y));
  const Output dw = gradients({loss}, {w})[0];
  const std::vector<RecomputedScope> costs = recomputed(g, {loss, dw}, {x});
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].name == "block");
  CHECK(costs[0].nodes == 4);                    // all of them: the gradient of exp is exp
  CHECK(costs[0].flops == 2.0 * 64 * 100 * 50);  // the product
  CHECK(costs[0].kept_bytes == 100 * 50 * 4);    // w; x is fed
  CHECK(costs[0].freed_bytes == (64 * 100 + 2 * 64 * 50) * 4);  // square, tanh and exp
  CHECK(recomputed(g, {loss}, {x}).empty());
}

TEST_CASE("what a scope saves is a number for sizes that no memory has, too") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {-1, int64_t{1} << 40, int64_t{1} << 40}, "x");
  const Output y = within(recompute(g, "block"), [&] { return exp(tanh(x)); });
  const Output dx = gradients({reduce_sum(square(y))}, {x})[0];
  const std::vector<RecomputedScope> costs = recomputed(g, {dx}, {x});
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].freed_bytes == 2 * (int64_t{1} << 42));  // tanh and exp, capped
}

TEST_CASE("a deep chain takes the memory of its scopes and one of them, not of all its values") {
  constexpr int64_t kRows = 40'000, kBlocks = 8, kDeep = 8;
  const auto peak = [&](bool again) {
    Graph g;
    const Output x = placeholder(g, DType::f32, {kRows}, "x");
    Output y = x;
    for (int64_t i = 0; i < kBlocks; ++i) {
      const auto scope = g.scope({.recompute = again});
      for (int64_t k = 0; k < kDeep; ++k) y = sin(y);
    }
    const Output dx = gradients({reduce_sum(y)}, {x})[0];
    Session session = Session::local(g, {.threads = 1, .passes = false});
    const Callable step = session.prepare({dx}, {x});
    step({Tensor::zeros(DType::f32, {kRows})});
    session.reset_peaks();
    const DeviceState before = session.device_states()[0];
    // Small blocks that a step keeps count in one number and not in the other.
    CHECK(before.peak_bytes >= before.used_bytes);
    CHECK(before.peak_bytes <= before.used_bytes + 1024);
    step({Tensor::zeros(DType::f32, {kRows})});
    return session.device_states()[0].peak_bytes - before.used_bytes;
  };
  constexpr int64_t kBytes = kRows * 4;
  const int64_t kept = peak(false), again = peak(true);
  CHECK(kept >= kBlocks * kDeep * kBytes - kBytes);
  CHECK(again <= (kBlocks + kDeep + 4) * kBytes * 5 / 4);
}

TEST_CASE("what has a state is not done again") {
  Graph g;
  const Queue queue = make_queue(g, {{DType::f64, Shape{}}}, {.capacity = 10});
  const Output filled = enqueue_many(queue, {fill(g, {4}, 2, DType::f64)});
  const Output w = placeholder(g, DType::f64, {}, "w");
  const Output y = within(recompute(g), [&] { return exp(tanh(dequeue(queue)[0] * w)); });
  const Output dw = gradients({y}, {w})[0];
  Session session = Session::local(g, {.threads = 1});
  session.run({filled});
  const double expected = [] {
    const double t = std::tanh(2 * 0.5);
    return std::exp(t) * (1 - t * t) * 2;
  }();
  CHECK(session.run({dw}, {{w, Tensor::scalar(0.5)}})[0].item<double>() ==
        doctest::Approx(expected));
  CHECK(session.run({queue_size(queue)})[0].item<int64_t>() == 3);
}

TEST_CASE("a scope may be around and inside of branches and loops") {
  const auto results = [](bool around, bool inside, bool taken) {
    Graph g;
    const Output x = placeholder(g, DType::f64, {3}, "x"),
                 p = placeholder(g, DType::boolean, {}, "p");
    std::vector<Output> end;
    {
      const auto outer = g.scope({.recompute = around});
      const Output start = sin(exp(x));
      const Output chosen = cond(
          p,
          [&] {
            const auto scope = g.scope({.recompute = inside});
            return tanh(square(start)) * x;
          },
          [&] { return start; });
      end = while_loop(
          [&](const std::vector<Output>& v) { return less(v[0], fill(g, {}, 4, DType::i64)); },
          [&](const std::vector<Output>& v) {
            const auto scope = g.scope({.recompute = inside});
            return std::vector<Output>{v[0] + 1, sin(exp(v[1]) * x) + v[1]};
          },
          {fill(g, {}, 0, DType::i64), cos(chosen)});
    }
    const Output loss = reduce_sum(square(end[1]));
    const Output dx = gradients({loss}, {x})[0];
    Session session = Session::local(g, {.threads = 1});
    return session.run(
        {loss, dx}, {{x, Tensor::of<double>({0.1, -0.3, 0.7}, {3})}, {p, Tensor::scalar(taken)}});
  };
  for (const bool taken : {true, false}) {
    const std::vector<Tensor> expected = results(false, false, taken);
    CHECK(same(results(true, false, taken), expected));
    CHECK(same(results(false, true, taken), expected));
    CHECK(same(results(true, true, taken), expected));
  }
}

TEST_CASE("a gradient that read copies can be differentiated again, by values inside as well") {
  const auto results = [](bool again) {
    Graph g;
    const Output x = placeholder(g, DType::f64, {}, "x");
    Output h, y;
    {
      const auto scope = g.scope({.recompute = again});
      h = exp(x);
      y = h * h * h;
    }
    const Output dx = gradients({y}, {x})[0], dh = gradients({y}, {h})[0];
    const Output ddx = gradients({dx}, {x})[0], ddh = gradients({dh}, {h})[0];
    const Output mixed = gradients({dx}, {h})[0];
    return Session::local(g, {.threads = 1})
        .run({dx, dh, ddx, ddh, mixed}, {{x, Tensor::scalar(0.5)}});
  };
  const std::vector<Tensor> expected = results(false), got = results(true);
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(got[i].item<double>() == doctest::Approx(expected[i].item<double>()).epsilon(1e-12));
  CHECK(expected[2].item<double>() == doctest::Approx(9 * std::exp(1.5)));
}

TEST_CASE("a scope with a bad name is refused, and graphs that are copied compute nothing again") {
  Graph g;
  CHECK(code_of([&] { (void)recompute(g, "a b"); }) == Errc::invalid_argument);
  const Output x = placeholder(g, DType::f64, {}, "x");
  {
    const auto scope = recompute(g, "block");
    (void)tanh(exp(x));
  }
  const std::string text = to_text(g);
  const auto read = graph_from_text(text);
  const Output dx = gradients({read->output("block/Tanh")}, {read->output("x")})[0];
  CHECK(times(to_text(*read), "/again") == 0);
  CHECK(dx.defined());
}

}  // namespace troupe
