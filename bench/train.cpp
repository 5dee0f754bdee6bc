// train --model M [--threads N] [--steps S]: training steps in one process; --peers and --loaded:
// beside other programs that do the same (bench/compare.hpp). --trace FILE writes a Chrome trace of
// the last ten steps; --passes off runs the graph without passes. bench/models.cpp defines the
// models; --compute bf16 or f16: in mixed precision; --recompute: the backward half recomputes
// blocks instead of keeping their values.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

#include "bench/bench.hpp"
#include "bench/compare.hpp"
#include "bench/models.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"

namespace troupe::bench {
namespace {

// The resident memory of the process with an empty session.
double idle_rss_mib(int threads) {
  Graph graph;
  const Session session = Session::local(graph, {.threads = threads});
  return rss_mib_now();
}

class Training {
 public:
  Training(const std::string& name, int threads, bool passes, DType compute, bool again = false)
      : idle_mib_(idle_rss_mib(threads)),
        mixed_(mixed_precision(graph_, compute)),
        model_(make_model(graph_, name, {.recompute = again})),
        session_(Session::local(graph_, {.threads = threads, .passes = passes})) {
    std::vector<Output> fed;
    for (const auto& [unused, output] : model_.fed) fed.push_back(output);
    step_ = session_.prepare({model_.loss, model_.update}, fed);
  }
  const Model& model() const { return model_; }
  double idle_mib() const { return idle_mib_; }
  // Seconds of one step.
  double step() {
    const auto begin = std::chrono::steady_clock::now();
    loss_ = step_(model_.feeds)[0].item<float>();
    return seconds_since(begin);
  }
  double loss() const { return loss_; }
  Session& session() { return session_; }

 private:
  const double idle_mib_;
  Graph graph_;
  Graph::Scope mixed_;
  Model model_;
  Session session_;
  Callable step_;
  double loss_ = 0;
};

// Our program among those that compare() runs: commands on standard input, answers on standard
// output.
int contestant(const std::string& name, int threads) {
  Training training(name, threads, true, DType::f32);
  std::cout << "ready" << std::endl;
  for (std::string line, word; std::getline(std::cin, line);) {
    std::istringstream in(line);
    int64_t steps = 0;
    if (!(in >> word)) continue;
    if (word == "steps" && in >> steps) {
      std::ostringstream out;
      for (int64_t i = 0; i < steps; ++i) out << training.step() * 1e3 << ' ';
      std::cout << out.str() << "loss " << training.loss() << std::endl;
    } else if (word == "memory") {
      std::cout << training.idle_mib() << ' ' << peak_rss_mib() << std::endl;
    }
  }
  return 0;
}

}  // namespace

int train(const Options& options) {
  const std::string name = options.text("model", "mlp");
  const int64_t threads = options.integer("threads", 1);
  if (threads < 1 || threads > 1024)
    throw Error(Errc::invalid_argument, "--threads wants 1 to 1,024, got ", threads);
  const int64_t steps = options.integer("steps", name == "sparse-lr" ? 1'000 : 100);
  if (steps < 1) throw Error(Errc::invalid_argument, "--steps wants at least 1, got ", steps);
  const std::string passes = options.text("passes", "on");
  if (passes != "on" && passes != "off")
    throw Error(Errc::invalid_argument, "--passes is on or off, not \"", passes, "\"");
  if (options.flag("contestant")) return contestant(name, static_cast<int>(threads));
  if (options.flag("peers") || options.flag("loaded") || options.given("rounds") ||
      options.given("only"))
    return compare(options);
  const bool again = options.flag("recompute");

  const DType compute = dtype_from_string(options.text("compute", "f32"));
  Training training(name, static_cast<int>(threads), passes == "on", compute, again);
  training.step();
  const double first = training.loss();
  for (int64_t i = 0; i < std::min<int64_t>(10, steps); ++i) training.step();
  std::vector<double> times;
  for (int64_t i = 0; i < steps; ++i) times.push_back(training.step());
  if (options.given("trace")) {
    training.session().start_trace();
    for (int i = 0; i < 10; ++i) training.step();
    std::ofstream out(options.text("trace", ""));
    if (!(out << training.session().stop_trace()).flush())
      throw Error(Errc::io, "cannot write the trace to \"", options.text("trace", ""), "\"");
  }
  if (!(training.loss() < first))
    throw InternalError("the loss went from ", first, " to ", training.loss(),
                        ": nothing was learned");
  const double median = quantile(times, 0.5);
  const Model& model = training.model();
  const auto say = [&](const std::string& metric, double value, const std::string& unit,
                       const std::string& statistic) {
    report(options, "train", (again ? "recompute_" : "") + metric, value, unit,
           {{"model", "\"" + name + "\""},
            {"threads", std::to_string(threads)},
            {"batch", std::to_string(model.batch)},
            {"statistic", "\"" + statistic + "\""}});
  };
  say("step_ms", median * 1e3, "ms", "median");
  say("step_ms_best", quantile(times, 0) * 1e3, "ms", "minimum");
  say("examples_per_s", static_cast<double>(model.batch) / median, "1/s", "median");
  say("gflops", model.flop / median / 1e9, "GFLOP/s", "median");
  say("peak_rss_mib", peak_rss_mib(), "MiB", "maximum");
  say("rss_over_idle_mib", peak_rss_mib() - training.idle_mib(), "MiB", "maximum");
  return 0;
}

}  // namespace troupe::bench
