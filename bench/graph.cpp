// graph --nodes N: the cost of a large graph before and in its steps: building it, preparing a call
// (all passes included), the first step and the steps after it. The graph has towers of a thousand
// ops each, in layers of scopes; an op adds two of the sixteen before it in its tower; one group
// joins all outputs without a reader.
#include <algorithm>
#include <random>

#include "bench/bench.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

constexpr int64_t kTower = 1'000, kLayer = 20, kNear = 16;

struct Built {
  Output x, last, all;
};

Built build(Graph& g, int64_t nodes) {
  Built out;
  out.x = placeholder(g, DType::f32, {1}, "x");
  std::mt19937 random(7);
  std::vector<Output> ends;
  for (int64_t tower = 0; tower * kTower < nodes; ++tower) {
    const auto named = g.scope({.name = detail::concat("tower", tower)});
    // A tower begins with an op that no other tower has: equal ops would be merged.
    std::vector<Output> made = {
        add(out.x, constant(g, Tensor::of<float>({static_cast<float>(tower)}, {1})))};
    std::vector<bool> read = {true};
    const int64_t size = std::min(kTower, nodes - tower * kTower);
    while (static_cast<int64_t>(made.size()) + 1 < size) {
      const auto layer = g.scope({.name = detail::concat("layer", made.size() / kLayer)});
      for (int64_t i = 0; i < kLayer && static_cast<int64_t>(made.size()) + 1 < size; ++i) {
        const size_t first = made.size() > kNear ? made.size() - kNear : 0;
        const size_t a = first + random() % (made.size() - first),
                     b = first + random() % (made.size() - first);
        made.push_back(subtract(made[a], made[b]));
        read[a] = read[b] = true;
        read.push_back(false);
      }
    }
    for (size_t i = 0; i < made.size(); ++i)
      if (!read[i]) ends.push_back(made[i]);
    out.last = made.back();
  }
  out.all = group(g, ends);
  return out;
}

}  // namespace

int graph(const Options& options) {
  const int64_t nodes = options.integer("nodes", 36'000);
  if (nodes < 1 || nodes > 10'000'000)
    throw Error(Errc::invalid_argument, "--nodes wants 1 to 10,000,000, got ", nodes);
  const auto since_ms = [](auto begin) { return seconds_since(begin) * 1e3; };
  const auto now = [] { return std::chrono::steady_clock::now(); };
  {  // pays the one-time costs of the process first
    Graph small;
    const Output x = placeholder(small, DType::f32, {1}, "x");
    Session::local(small, {.threads = 1}).run({add(x, x)}, {{x, Tensor::of<float>({1}, {1})}});
  }
  const double idle = rss_mib_now();
  auto begin = now();
  Graph g;
  const Built built = build(g, nodes);
  const double build_ms = since_ms(begin);
  Session session = Session::local(g, {.threads = 1});
  begin = now();
  const Callable step = session.prepare({built.last, built.all}, {built.x});
  const double prepare_ms = since_ms(begin);
  const std::vector<Tensor> feed = {Tensor::of<float>({1}, {1})};
  begin = now();
  step(feed);
  const double first_ms = since_ms(begin);
  std::vector<double> next;
  for (int i = 0; i < 21; ++i) {
    begin = now();
    step(feed);
    next.push_back(since_ms(begin));
  }
  const auto say = [&](const char* metric, double value, const char* unit, const char* statistic) {
    report(options, "graph", metric, value, unit,
           {{"nodes", std::to_string(g.nodes().size())},
            {"statistic", detail::concat("\"", statistic, "\"")}});
  };
  say("build_ms", build_ms, "ms", "once");
  say("prepare_ms", prepare_ms, "ms", "once");
  say("first_step_ms", first_ms, "ms", "once");
  say("next_step_ms", quantile(next, 0.5), "ms", "median");
  say("rss_mib", peak_rss_mib() - idle, "MiB", "maximum");
  return 0;
}

}  // namespace troupe::bench
