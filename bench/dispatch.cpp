// dispatch: the engine's cost per op. Element-wise adds of one float, without graph passes, which
// would merge equal ones. A chain of N adds ends with the value N, so each add ran. For N adds side
// by side, all values are checked once before the timing, and the last one in every step; likewise
// for a random graph, whose sums are small integers. One loop has three ops in its body; another
// loop has two slow ops, the first of which could run beside the iteration before.
#include <algorithm>
#include <random>
#include <thread>

#include "bench/bench.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

// Best and median nanoseconds per op over 51 rounds of 100,000 ops each, or of one step if it has
// more ops.
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

// Each op adds two of all earlier ones; the generator's numbers are the same on every machine.
void dag(const Options& options, int64_t nodes) {
  Graph graph;
  Output x = placeholder(graph, DType::f32, {1}, "x");
  std::vector<Output> all = {x};
  std::vector<float> sums = {1};
  std::vector<bool> read = {true};
  std::mt19937 random(42);
  for (int64_t i = 0; i < nodes; ++i) {
    const size_t a = random() % all.size(), b = random() % all.size();
    all.push_back(add(all[a], all[b]));
    sums.push_back(sums[a] + sums[b]);
    read[a] = read[b] = true;
    read.push_back(false);
  }
  std::vector<Output> ends;
  for (size_t i = 0; i < all.size(); ++i)
    if (!read[i]) ends.push_back(all[i]);
  Session session = Session::local(graph, {.threads = 1, .passes = false});
  const std::vector<Tensor> feed = {Tensor::of<float>({1}, {1})};
  all.erase(all.begin());
  sums.erase(sums.begin());
  const std::vector<Tensor> got = session.prepare(all, {x})(feed);
  for (size_t i = 0; i < got.size(); ++i) check_equal(got[i].item<float>(), sums[i]);
  Callable step = session.prepare({group(graph, ends), all.back()}, {x});
  const Times t =
      time_per_op(nodes, [&] { check_equal(step(feed)[1].item<float>(), sums.back()); });
  report(options, "dispatch", "dag_ns_per_op", t.median, "ns",
         {{"nodes", std::to_string(nodes)}, {"statistic", "\"median\""}});
}

// A prepared chain of 10 ops, called by two threads concurrently for a fifth of a second per round.
void runs(const Options& options) {
  constexpr int64_t kNodes = 10;
  constexpr int kThreads = 2, kRounds = 7;
  Graph graph;
  Output x = placeholder(graph, DType::f32, {1}, "x");
  Output one = constant(graph, Tensor::of<float>({1}, {1}));
  Output y = x;
  for (int64_t i = 0; i < kNodes; ++i) y = add(y, one);
  Session session = Session::local(graph, {.threads = kThreads, .passes = false});
  const Callable step = session.prepare({y}, {x});
  const auto call_for = [&](double seconds) {  // runs per second of one thread
    const std::vector<Tensor> feed = {Tensor::of<float>({0}, {1})};
    const auto begin = std::chrono::steady_clock::now();
    int64_t calls = 0;
    double took = 0;
    while ((took = seconds_since(begin)) < seconds)
      for (int i = 0; i < 1'000; ++i, ++calls) check_equal(step(feed)[0].item<float>(), kNodes);
    return static_cast<double>(calls) / took;
  };
  std::vector<double> rounds;
  for (int r = 0; r < kRounds; ++r) {
    double other = 0;
    std::thread second([&] { other = call_for(0.2); });
    const double mine = call_for(0.2);
    second.join();
    rounds.push_back(mine + other);
  }
  const std::vector<std::pair<std::string, std::string>> config = {
      {"nodes", std::to_string(kNodes)}, {"threads", std::to_string(kThreads)}};
  const auto say = [&](const char* metric, double value, const char* statistic) {
    auto all = config;
    all.emplace_back("statistic", detail::concat("\"", statistic, "\""));
    report(options, "dispatch", metric, value, "1/s", all);
  };
  say("runs_per_s", quantile(rounds, 0.5), "median");
  say("runs_per_s_most", quantile(rounds, 1), "maximum");
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

// A loop with three element-wise ops and a comparison in its body; 10,000 iterations per step.
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

// A loop of two slow ops, one after the other, on two threads. The first op does not read the
// second op's result of the previous iteration, so iterations could overlap; an engine that runs
// them one after another has an overlap_ratio of 1. Best of 15 steps each.
void overlap(const Options& options) {
  constexpr int64_t kIterations = 100;
  const auto best_ms = [](int64_t in_flight) {
    Graph graph;
    const Output n = placeholder(graph, DType::f32, {}, "n"),
                 x = placeholder(graph, DType::f32, {100'000}, "x");
    const std::vector<Output> end =
        while_loop([&](const std::vector<Output>& v) { return less(v[0], n); },
                   [&](const std::vector<Output>& v) {
                     const Output a = cumsum(v[1]);
                     return std::vector<Output>{v[0] + 1, a, cumsum(maximum(v[2], a))};
                   },
                   {fill(graph, {}, 0), x, x}, {.iterations_in_flight = in_flight});
    Session session = Session::local(graph, {.threads = 2, .passes = false});
    Callable step = session.prepare({end[2]}, {n, x});
    const std::vector<Tensor> feed = {Tensor::scalar(static_cast<float>(kIterations)),
                                      Tensor::zeros(DType::f32, {100'000})};
    double best = 1e9;
    for (int r = 0; r < 15; ++r) {
      const auto begin = std::chrono::steady_clock::now();
      check_equal(step(feed)[0].data<float>()[7], 0);
      best = std::min(best, seconds_since(begin) * 1e3);
    }
    return best;
  };
  const double one = best_ms(1), eight = best_ms(8);
  const auto say = [&](const char* metric, double value, const char* unit) {
    report(options, "dispatch", metric, value, unit,
           {{"iterations", std::to_string(kIterations)},
            {"threads", "2"},
            {"statistic", "\"minimum\""}});
  };
  say("overlap_ms_one_in_flight", one, "ms");
  say("overlap_ms_eight_in_flight", eight, "ms");
  say("overlap_ratio", eight / one, "1");
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
  dag(options, 1'000);
  empty(options);
  loop(options);
  overlap(options);
  runs(options);
  return 0;
}

}  // namespace troupe::bench
