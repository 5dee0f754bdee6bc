// dispatch: what the engine costs per op. Element-wise adds of one float, with the graph passes
// off, which would merge equal ones. A chain of N adds ends at N, so each of them ran; of N adds
// side by side all are looked at once, before the clock runs, and the last one in every step. A
// loop has three ops in its body.
#include <algorithm>

#include "bench/bench.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

// Best and median nanoseconds an op over 51 rounds of 100,000 ops each, or of one step if it has
// more.
struct Times {
  double best, median;
};
template <class F>
Times time_per_op(int64_t ops, F&& step) {
  for (int i = 0; i < 20; ++i) step();
  const int64_t steps = std::max<int64_t>(1, 100'000 / ops);
  std::vector<double> rounds;
  for (int r = 0; r < 51; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t s = 0; s < steps; ++s) step();
    rounds.push_back(seconds_since(begin) * 1e9 / static_cast<double>(steps * ops));
  }
  return {quantile(rounds, 0), quantile(rounds, 0.5)};
}

void check_equal(float got, float want) {
  if (got != want) throw InternalError("the sum is ", got, ", expected ", want);
}

void chain(const Options& options, int64_t nodes) {
  Graph graph;
  Output x = placeholder(graph, DType::f32, {1}, "x");
  Output one = constant(graph, Tensor::of<float>({1}, {1}));
  Output y = x;
  for (int64_t i = 0; i < nodes; ++i) y = add(y, one);
  Session session = Session::local(graph, {.threads = 1, .passes = false});
  Callable step = session.prepare({y}, {x});
  const std::vector<Tensor> feed = {Tensor::of<float>({0}, {1})};
  const Times t = time_per_op(
      nodes, [&] { check_equal(step(feed)[0].item<float>(), static_cast<float>(nodes)); });
  const std::string config = std::to_string(nodes);
  report(options, "dispatch", "chain_ns_per_op", t.median, "ns",
         {{"nodes", config}, {"statistic", "\"median\""}});
  report(options, "dispatch", "chain_ns_per_op_best", t.best, "ns",
         {{"nodes", config}, {"statistic", "\"minimum\""}});
}

void wide(const Options& options, int64_t nodes) {
  Graph graph;
  Output x = placeholder(graph, DType::f32, {1}, "x");
  Output one = constant(graph, Tensor::of<float>({1}, {1}));
  std::vector<Output> all;
  for (int64_t i = 0; i < nodes; ++i) all.push_back(add(x, one));
  Output join = group(graph, all);
  Session session = Session::local(graph, {.threads = 1, .passes = false});
  const std::vector<Tensor> feed = {Tensor::of<float>({1}, {1})};
  for (const Tensor& sum : session.prepare(all, {x})(feed)) check_equal(sum.item<float>(), 2);
  Callable step = session.prepare({join, all.back()}, {x});
  const Times t = time_per_op(nodes, [&] { check_equal(step(feed)[1].item<float>(), 2); });
  report(options, "dispatch", "wide_ns_per_op", t.median, "ns",
         {{"nodes", std::to_string(nodes)}, {"statistic", "\"median\""}});
}

void empty(const Options& options) {
  Graph graph;
  Output x = placeholder(graph, DType::f32, {1}, "x");
  Output y = identity(x);
  Session session = Session::local(graph, {.threads = 1, .passes = false});
  Callable step = session.prepare({y}, {x});
  const std::vector<Tensor> feed = {Tensor::of<float>({7}, {1})};
  const Times t = time_per_op(1, [&] { check_equal(step(feed)[0].item<float>(), 7); });
  report(options, "dispatch", "empty_step_us", t.median / 1e3, "us", {{"statistic", "\"median\""}});
}

// A loop with three element-wise ops in its body and a comparison; 10,000 iterations a step.
void loop(const Options& options) {
  constexpr int64_t kIterations = 10'000;
  Graph graph;
  const Output n = placeholder(graph, DType::f32, {}, "n");
  const Output one = constant(graph, Tensor::scalar(1.0F));
  const std::vector<Output> end =
      while_loop([&](const std::vector<Output>& v) { return less(v[0], n); },
                 [&](const std::vector<Output>& v) {
                   return std::vector<Output>{add(v[0], one), subtract(multiply(v[1], one), one)};
                 },
                 {fill(graph, {}, 0), fill(graph, {}, 0)});
  Session session = Session::local(graph, {.threads = 1, .passes = false});
  Callable step = session.prepare({end[1]}, {n});
  const std::vector<Tensor> feed = {Tensor::scalar(static_cast<float>(kIterations))};
  const Times t = time_per_op(kIterations, [&] {
    check_equal(step(feed)[0].item<float>(), -static_cast<float>(kIterations));
  });
  report(options, "dispatch", "loop_ns_per_iteration", t.median, "ns",
         {{"iterations", std::to_string(kIterations)},
          {"body_ops", "3"},
          {"statistic", "\"median\""}});
}

}  // namespace

int dispatch(const Options& options) {
  const int64_t nodes = options.integer("nodes", 0);
  if (nodes < 0)
    throw Error(Errc::invalid_argument, "--nodes wants at least 1, or 0 for 1,000 and 10,000; got ",
                nodes);
  if (nodes > 0) {
    chain(options, nodes);
  } else {
    chain(options, 1'000);
    chain(options, 10'000);
  }
  wide(options, 10'000);
  empty(options);
  loop(options);
  return 0;
}

}  // namespace troupe::bench
