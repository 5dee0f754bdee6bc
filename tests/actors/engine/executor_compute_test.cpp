// The values that an executor computes, and the memory that it needs for them.
// The harness is tests/support/engine/executor_rig.hpp.

#include "tests/support/engine/executor_graphs.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

TEST_CASE("a chain gives what plain evaluation gives") {
  ExecutorRig rig;
  const Output x = rig.input();
  Output y = x;
  for (int i = 0; i < 50; ++i) y = rig.op("AddOne", {y});
  rig.build({y}, {x});
  const std::vector<Tensor> got = rig.run({ints({1, -7})});
  CHECK(same_bits(got[0], ints({51, 43})));
}

TEST_CASE("an op in place never writes over a value that somebody else reads") {
  ExecutorRig rig;
  const Output x = rig.input();
  const Output a = rig.op("AddOne", {x});
  rig.build({rig.op("Add", {rig.op("AddOne", {a}), rig.op("AddOne", {a})}), a, x}, {x});
  const Tensor fed = ints({1, 2});
  for (int i = 0; i < 3; ++i) rig.check_against_plain_evaluation({fed});
  CHECK(same_bits(fed, ints({1, 2})));
}

TEST_CASE("only an op that says so gets the memory of its input") {
  ExecutorRig rig;
  const Output x = rig.input();
  rig.build({rig.op("Reverse", {rig.op("AddOne", {x})})}, {x});
  CHECK(same_bits(rig.run({ints({1, 2})})[0], ints({3, 2})));
}

TEST_CASE("random graphs give what plain evaluation gives, step after step") {
  for (uint32_t seed = 1; seed <= 25; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    ExecutorRig rig;
    const std::vector<Output> xs = {rig.input("x0"), rig.input("x1"), rig.constant({4, 5})};
    rig.build(random_graph(rig, xs, 60, random), {xs[0], xs[1]});
    for (int step = 0; step < 4; ++step)
      rig.check_against_plain_evaluation({ints({static_cast<int32_t>(random()), 2}),
                                          ints({step, static_cast<int32_t>(random())})});
  }
}

TEST_CASE("a node with several outputs hands each to its own readers") {
  ExecutorRig rig;
  const Output x = rig.input();
  const Output y = rig.op("Pair", {x}), z{y.graph, y.node, 1};
  rig.build({rig.op("AddOne", {z}), y, rig.op("Add", {y, z})}, {x});
  const std::vector<Tensor> got = rig.run({ints({3, -4})});
  CHECK(same_bits(got[0], ints({7, -7})));
  CHECK(same_bits(got[1], ints({-3, 4})));
  CHECK(same_bits(got[2], ints({3, -4})));
}

TEST_CASE("a node may have more than 256 outputs") {
  ExecutorRig rig;
  const Output x = rig.input();
  const Output y = rig.op("Many", {x}, "many", {{"count", int64_t{300}}});
  rig.build({{y.graph, y.node, 299}, {y.graph, y.node, 7}}, {x});
  const int64_t before = rig.used_bytes();
  rig.check_against_plain_evaluation({ints({10, 20})});
  CHECK(rig.used_bytes() == before);  // the 298 that nobody reads, too
}

TEST_CASE("a constant is evaluated once, when the executor is made") {
  ExecutorRig rig;
  const Output x = rig.input();
  rig.build({rig.op("Add", {rig.op("Mul", {rig.constant({2, 3}), rig.constant({5, 7})}), x})}, {x});
  CHECK(knobs().constants == 2);
  for (int i = 0; i < 5; ++i) CHECK(same_bits(rig.run({ints({1, 1})})[0], ints({11, 22})));
  CHECK(knobs().constants == 2);
}

TEST_CASE("feeds, constants and one output twice can be fetched") {
  ExecutorRig rig;
  const Output x = rig.input(), c = rig.constant({8, 9}), y = rig.op("AddOne", {x});
  rig.build({x, c, y, y}, {x});
  for (int i = 0; i < 3; ++i) {
    const std::vector<Tensor> got = rig.run({ints({i, i + 1})});
    CHECK(same_bits(got[0], ints({i, i + 1})));
    CHECK(same_bits(got[1], ints({8, 9})));
    CHECK(same_bits(got[2], ints({i + 1, i + 2})));
    CHECK(same_bits(got[3], ints({i + 1, i + 2})));
  }
}

TEST_CASE("a feed may stand for the output of any node, which then does not run") {
  ExecutorRig rig;
  const Output x = rig.input(), y = rig.op("Flaky", {x}), z = rig.op("AddOne", {y});
  rig.build({z}, {y});
  CHECK(same_bits(rig.run({ints({41, 0})})[0], ints({42, 1})));
  CHECK(knobs().flaky_runs == 0);
}

TEST_CASE("a control edge holds a node back until the other has run") {
  ExecutorRig rig;
  const Output x = rig.input(), gate = rig.op("Later", {x}, "gate");
  const Output y =
      rig.graph.add({.op = "Flaky", .inputs = {x}, .name = "after", .control_inputs = {gate.node}});
  rig.build({y}, {x});
  ExecutorRig::Run step(rig, 1, {ints({2, 2})});
  step.fire();
  const auto firing = knobs().next_later();
  CHECK(knobs().flaky_runs == 0);
  firing->done({ints({0, 0})});
  CHECK(step.finish().code == Errc::ok);
  CHECK(same_bits(step.values[0], ints({10, 10})));
}

TEST_CASE("steps in flight at the same time do not see each other's values") {
  ExecutorRig rig;
  const Output x = rig.input(), y = rig.op("AddOne", {x});
  rig.build({rig.op("Add", {rig.op("Later", {y}), y})}, {x});
  constexpr int kSteps = 40;  // more than the executor keeps idle steps for
  std::vector<std::unique_ptr<ExecutorRig::Run>> steps;
  for (int i = 0; i < kSteps; ++i) {
    steps.push_back(
        std::make_unique<ExecutorRig::Run>(rig, 100 + i, std::vector<Tensor>{ints({i, 10 * i})}));
    steps.back()->fire();
  }
  CHECK(rig.client().running() == kSteps);
  std::vector<std::shared_ptr<AsyncContext>> firings;
  for (int i = 0; i < kSteps; ++i) firings.push_back(knobs().next_later());
  std::shuffle(firings.begin(), firings.end(), std::mt19937(5));
  for (const auto& firing : firings) firing->done({firing->input(0)});
  for (int i = 0; i < kSteps; ++i) {
    CHECK(steps[static_cast<size_t>(i)]->finish().code == Errc::ok);
    CHECK(
        same_bits(steps[static_cast<size_t>(i)]->values[0], ints({2 * (i + 1), 2 * (10 * i + 1)})));
  }
  CHECK(rig.client().running() == 0);
}

TEST_CASE("threads that run one executor at once get their own results") {
  ExecutorRig rig(2);
  const Output x = rig.input();
  rig.build({rig.op("Mul", {rig.op("AtOnce", {rig.op("AddOne", {x})}), rig.op("Later", {x})})},
            {x});
  constexpr int kThreads = 4, kSteps = 60;
  std::thread answering([] {
    for (int i = 0; i < kThreads * kSteps; ++i) {
      const auto firing = knobs().next_later();
      firing->done({firing->input(0)});
    }
  });
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&rig, &right, t] {
      for (int i = 0; i < kSteps; ++i) {
        const int32_t n = 1000 * t + i;
        ExecutorRig::Run step(rig, n, {ints({n, n})});
        step.fire();
        if (step.finish().code == Errc::ok &&
            same_bits(step.values[0], ints({n * (n + 1), n * (n + 1)})))
          ++right;
      }
    });
  for (std::thread& t : threads) t.join();
  answering.join();
  CHECK(right == kThreads * kSteps);
}

// Memory

TEST_CASE("memory is back where it was when a step has ended") {
  ExecutorRig rig;
  const Output x = rig.input("x", Shape{1000});
  const Output unread = rig.op("Pair", {rig.op("Mul", {x, x})});
  const Output y = rig.op("Flaky", {rig.op("Add", {unread, x})});
  rig.build({y, x}, {x});
  const Tensor fed = Tensor::zeros(DType::i32, Shape{1000});
  const int64_t before = rig.used_bytes();
  {
    const std::vector<Tensor> got = rig.run({fed});
    CHECK(rig.used_bytes() > before);  // the fetched value
  }
  CHECK(rig.used_bytes() == before);
  knobs().failures = 100;
  rig.run({fed});
  CHECK(rig.last.code == Errc::io);
  CHECK(rig.used_bytes() == before);
}

TEST_CASE("a value is released after its last reader, an unread one at once") {
  ExecutorRig rig;
  const Output x = rig.input("x", Shape{100'000});
  Output y = x;
  for (int i = 0; i < 40; ++i) y = rig.op("Mul", {rig.op("Pair", {y}), x});
  rig.build({y}, {x});
  rig.run({Tensor::zeros(DType::i32, Shape{100'000})});
  CHECK(rig.last.code == Errc::ok);
  // At most four values of 400,000 bytes are alive at a time: Pair's two, its input, and a product.
  CHECK(rig.device(ExecutorRig::kClient).memory().stats().peak_bytes < 5 * 460'000);
}

// Mistakes

TEST_CASE("a node without a kernel on its device is refused with its name and place") {
  ExecutorRig rig;
  const Output x = rig.input();
  const Output there = within(rig.on(ExecutorRig::kShadow), [&] {
    return rig.graph.add({.op = "Later", .inputs = {x}, .name = "pull"}, {"model.cpp", 12});
  });
  check_invalid([&] { rig.build({there}, {x}); }, "pull", "model.cpp:12", ExecutorRig::kShadow);
}

}  // namespace
}  // namespace troupe
