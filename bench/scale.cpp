// scale --model M --workers W --rule R: examples per second of W worker processes of one thread
// each, with and without a process for the parameters, against one process of W threads. All train
// the same model with train() on the same W cores, and take turns.
#include <sched.h>

#include <functional>
#include <memory>

#include "bench/bench.hpp"
#include "bench/models.hpp"
#include "bench/nodes.hpp"
#include "troupe/error.hpp"
#include "troupe/session.hpp"
#include "troupe/training.hpp"

namespace troupe::bench {
namespace {

constexpr int kMostWorkers = 64;
constexpr int64_t kUntimed = 5;  // steps at the begin of each turn

// Keeps this process, and those that it starts, to the first `count` cores that it may use.
std::vector<int> keep_to_cores(int count) {
  cpu_set_t ours, some;
  CPU_ZERO(&ours);
  CPU_ZERO(&some);
  sched_getaffinity(0, sizeof ours, &ours);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE && static_cast<int>(cores.size()) < count; ++core)
    if (CPU_ISSET(core, &ours)) {
      cores.push_back(core);
      CPU_SET(core, &some);
    }
  if (static_cast<int>(cores.size()) < count)
    throw Error(Errc::invalid_argument, "--workers wants a core for each of ", count,
                " workers; this process may use ", cores.size());
  sched_setaffinity(0, sizeof some, &some);
  return cores;
}

std::vector<NodePlace> places(const std::vector<int>& cores, int servers) {
  std::vector<NodePlace> out;
  for (int i = 0; i < servers; ++i) out.push_back({.job = "ps", .task = i});
  for (size_t i = 0; i < cores.size(); ++i)
    out.push_back({.job = "worker", .task = static_cast<int>(i), .core = cores[i]});
  return out;
}

// One way to train the model: in this process, or with a replica on each worker of a cluster.
class Trainer {
 public:
  Trainer(const std::string& model, int threads)
      : session_(Session::local(graph_, {.threads = threads})) {
    add_replica(model, 0, "");
  }
  Trainer(const std::string& model, const std::vector<int>& cores, int servers)
      : nodes_(std::make_unique<Nodes>(places(cores, servers))),
        session_(Session::connect(
            graph_, nodes_->addresses(),
            {.process = {.threads = 1}, .cluster = "bench", .wait_for = nodes_->names()})) {
    for (size_t i = 0; i < cores.size(); ++i)
      add_replica(model, static_cast<int64_t>(i),
                  detail::concat("/job:worker/task:", i, "/device:cpu:0"));
  }

  // Trains anew for that many steps, and returns the examples per second of all replicas.
  double turn(Aggregation rule, int64_t steps) {
    TrainOptions options;
    options.rule = rule;
    options.steps = kUntimed + steps;
    if (rule.local()) options.steps = (options.steps + rule.bound - 1) / rule.bound * rule.bound;
    options.anew = true;
    std::chrono::steady_clock::time_point begin, end;
    double first = 0;
    options.on_progress = [&](const TrainProgress& p) {
      if (p.step == 1) first = p.loss;
      if (p.step == kUntimed) begin = std::chrono::steady_clock::now();
      if (p.step == p.steps) end = std::chrono::steady_clock::now();
    };
    const int64_t before = bytes();
    const TrainResult result = train(session_, towers_, options);
    bytes_per_step_ = static_cast<double>(bytes() - before) / static_cast<double>(result.steps);
    if (!(result.loss < first))
      throw InternalError("the loss went from ", first, " to ", result.loss,
                          ": nothing was learned");
    weights_ = result.weights_sha256;
    return static_cast<double>(batch_ * (result.steps - kUntimed)) *
           static_cast<double>(towers_.size()) / std::chrono::duration<double>(end - begin).count();
  }
  // Values and gradients to and from shards in each step of the latest turn.
  double bytes_per_step() const { return bytes_per_step_; }
  const std::string& weights() const { return weights_; }  // their hash after the latest turn

 private:
  int64_t bytes() {
    int64_t out = 0;
    for (const ParameterSlice& s : parameter_slices(session_))
      out += s.pulled_bytes + s.pushed_bytes;
    return out;
  }
  void add_replica(const std::string& name, int64_t replica, const std::string& device) {
    const auto scope = graph_.scope({.device = device, .replica = replica});
    const Model model = make_model(graph_, name, {.held = true});
    towers_.push_back({.replica = replica, .loss = model.loss, .update = model.update});
    batch_ = model.batch;
  }

  Graph graph_;
  std::unique_ptr<Nodes> nodes_;  // null: in this process
  Session session_;
  std::vector<Tower> towers_;
  int64_t batch_ = 0;
  std::string weights_;
  double bytes_per_step_ = 0;
};

}  // namespace

int scale(const Options& options) {
  const std::string model = options.text("model", "mlp");
  const int64_t workers = options.integer("workers", 2), rounds = options.integer("rounds", 5);
  const int64_t steps = options.integer("steps", 60);
  const Aggregation rule = aggregation_from_string(options.text("rule", "sync"));
  if (workers < 1 || workers > kMostWorkers)
    throw Error(Errc::invalid_argument, "--workers wants 1 to ", kMostWorkers, ", got ", workers);
  if (rounds < 1 || steps < 1)
    throw Error(Errc::invalid_argument, "--rounds and --steps want at least 1");
  const std::vector<int> cores = keep_to_cores(static_cast<int>(workers));

  struct Way {
    const char* name;
    std::unique_ptr<Trainer> trainer;
    std::vector<double> rates = {}, ratios = {};
  };
  std::vector<Way> ways;
  ways.push_back({"one process", std::make_unique<Trainer>(model, static_cast<int>(workers))});
  ways.push_back({"workers", std::make_unique<Trainer>(model, cores, 0)});
  ways.push_back({"workers and a ps", std::make_unique<Trainer>(model, cores, 1)});
  for (Way& way : ways) way.trainer->turn(rule, 1);  // warms memory and links up
  for (int64_t i = 0; i < rounds; ++i)
    for (Way& way : ways) {
      way.rates.push_back(way.trainer->turn(rule, steps));
      way.ratios.push_back(way.rates.back() / ways[0].rates.back());
    }
  if (rule.repeats() && ways[1].trainer->weights() != ways[2].trainer->weights())
    throw InternalError("the weights differ with and without a ps");

  for (const Way& way : ways) {
    const std::vector<std::pair<std::string, std::string>> config = {
        {"model", detail::concat("\"", model, "\"")},
        {"workers", std::to_string(workers)},
        {"rule", detail::concat("\"", to_string(rule), "\"")},
        {"by", detail::concat("\"", way.name, "\"")},
        {"rounds", std::to_string(rounds)},
        {"statistic", "\"median\""}};
    report(options, "scale", "examples_per_s", quantile(way.rates, 0.5), "1/s", config);
    report(options, "scale", "parameter_bytes_per_step", way.trainer->bytes_per_step(), "B",
           config);
    // The two rates of a ratio are of one round, which other work on the machine slows alike.
    if (&way != &ways[0])
      report(options, "scale", "of_one_process", quantile(way.ratios, 0.5), "times", config);
  }
  return 0;
}

}  // namespace troupe::bench
