// trace [--model M] [--threads N]: the cost of a trace for the steps in it. Rounds with the tracer
// off and on take turns in one session, so both see the same machine; processing the events
// afterwards is not part of the time.
#include <algorithm>
#include <random>

#include "bench/bench.hpp"
#include "bench/models.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

struct Measured {
  double off = 0, on = 0;  // seconds per step, the least of all rounds
  double off_median = 0, on_median = 0;
  double fraction() const { return on / off - 1; }
  double median_fraction() const { return on_median / off_median - 1; }
};

template <class F>
Measured take_turns(Session& session, int rounds, int steps, const F& step) {
  std::vector<double> off, on;
  const auto round = [&] {
    step();  // not measured: the first step after a pause differs
    const auto begin = std::chrono::steady_clock::now();
    for (int s = 0; s < steps; ++s) step();
    return seconds_since(begin) / steps;
  };
  for (int s = 0; s < steps; ++s) step();
  for (int r = 0; r < rounds; ++r) {
    off.push_back(round());
    session.start_trace();
    on.push_back(round());
    if (session.stop_trace().find("\"kernel\"") == std::string::npos)
      throw InternalError("the trace has no kernel in it");
  }
  return {quantile(off, 0), quantile(on, 0), quantile(off, 0.5), quantile(on, 0.5)};
}

void say(const Options& options, const std::string& what, const Measured& m, double scale,
         const std::string& unit, std::vector<std::pair<std::string, std::string>> config) {
  const auto line = [&](const std::string& metric, double value, const std::string& value_unit,
                        const char* statistic) {
    auto all = config;
    all.emplace_back("statistic", detail::concat("\"", statistic, "\""));
    report(options, "trace", what + metric, value, value_unit, all);
  };
  line("_off", m.off * scale, unit, "minimum");
  line("_on", m.on * scale, unit, "minimum");
  line("_cost_percent", m.fraction() * 100, "%", "of minima");
  line("_cost_percent", m.median_fraction() * 100, "%", "of medians");
}

// A training step of a model: kernels of microseconds or longer.
void model_step(const Options& options, const std::string& name, int threads) {
  Graph graph;
  const Model model = make_model(graph, name);
  Session session = Session::local(graph, {.threads = threads});
  std::vector<Output> fed;
  for (const auto& [unused, output] : model.fed) fed.push_back(output);
  const Callable step = session.prepare({model.loss, model.update}, fed);
  const Measured m = take_turns(session, 25, 8, [&] { step(model.feeds); });
  say(options, "step", m, 1e3, "ms",
      {{"model", "\"" + name + "\""},
       {"batch", std::to_string(model.batch)},
       {"threads", std::to_string(threads)}});
}

// The random graph of `dispatch`: only ops of a few nanoseconds, each with two clock reads and an
// event. An upper bound of a trace's cost.
void tiny_ops(const Options& options) {
  constexpr int64_t kNodes = 1'000;
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {1}, "x");
  std::vector<Output> all = {x};
  std::mt19937 random(42);
  for (int64_t i = 0; i < kNodes; ++i) {
    const size_t a = random() % all.size(), b = random() % all.size();
    all.push_back(add(all[a], all[b]));
  }
  const Output end = group(graph, all);
  Session session = Session::local(graph, {.threads = 1, .passes = false});
  const Callable step = session.prepare({end, all.back()}, {x});
  const std::vector<Tensor> feed = {Tensor::of<float>({1}, {1})};
  const Measured m = take_turns(session, 25, 20, [&] { step(feed); });
  say(options, "op", m, 1e9 / kNodes, "ns", {{"nodes", std::to_string(kNodes)}});
}

}  // namespace

int trace(const Options& options) {
  const int64_t threads = options.integer("threads", 1);
  if (threads < 1 || threads > 1024)
    throw Error(Errc::invalid_argument, "--threads wants 1 to 1,024, got ", threads);
  model_step(options, options.text("model", "mlp"), static_cast<int>(threads));
  tiny_ops(options);
  return 0;
}

}  // namespace troupe::bench
