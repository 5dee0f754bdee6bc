// switch --model M --every N --steps S: what a change of the aggregation rule costs a training on 2
// ps and 2 workers of one thread each: the longest step around each change, against the median step
// of the whole run. The rules follow each other every N steps.
#include <algorithm>
#include <chrono>
#include <set>

#include "bench/bench.hpp"
#include "bench/models.hpp"
#include "bench/nodes.hpp"
#include "troupe/error.hpp"
#include "troupe/session.hpp"
#include "troupe/training.hpp"

namespace troupe::bench {
namespace {

constexpr int kWorkers = 2;
constexpr int64_t kUntimed = 20;  // steps at the begin
constexpr int64_t kAround = 2;    // steps on each side of a change

// The milliseconds of each step of the slowest replica.
using StepTimes = std::vector<double>;

// The rules, one after the other; each is followed by another one.
const char* const kRules[] = {"sync-backup:1", "ssp:3", "async", "sync", "ssp-damped:1", "sync"};

std::set<int64_t> changes_of(int64_t steps, int64_t every) {
  std::set<int64_t> out;
  for (int64_t step = kUntimed + every; step + kAround < steps; step += every) out.insert(step);
  return out;
}

StepTimes train_over(Session& session, const std::vector<Tower>& towers, int64_t steps,
                     const std::set<int64_t>& changes) {
  StepTimes out(static_cast<size_t>(steps));
  auto before = std::chrono::steady_clock::now();
  int64_t told = 0;
  size_t next = 0;
  TrainOptions options{.steps = steps};
  options.on_progress = [&](const TrainProgress& p) {
    if (next == 0)
      for (const int64_t step : changes)
        set_rule(session, aggregation_from_string(kRules[next++ % std::size(kRules)]), step);
    if (p.step > 0) out[static_cast<size_t>(p.step - 1)] = seconds_since(before) * 1e3;
    before = std::chrono::steady_clock::now();
  };
  options.on_event = [&](const TrainEvent& e) { told += e.text.starts_with("the rule is "); };
  train(session, towers, options);
  if (told != std::ssize(changes))
    throw InternalError("of ", changes.size(), " changes of the rule ", told, " were made");
  return out;
}

}  // namespace

int switching(const Options& options) {
  const std::string model = options.text("model", "mlp");
  const int64_t every = options.integer("every", 50), steps = options.integer("steps", 1000);
  if (every <= 2 * kAround)
    throw Error(Errc::invalid_argument, "--every wants more than ", 2 * kAround,
                " steps between two changes, got ", every);
  const std::set<int64_t> changes = changes_of(steps, every);
  if (changes.empty())
    throw Error(Errc::invalid_argument, "--steps wants more than ", kUntimed + every + kAround,
                ", for a change after ", kUntimed, " and ", every, " steps, got ", steps);
  std::vector<NodePlace> places;
  for (int i = 0; i < kWorkers; ++i) {
    places.push_back({.job = "ps", .task = i});
    places.push_back({.job = "worker", .task = i});
  }
  Nodes nodes(places);
  Graph graph;
  std::vector<Tower> towers;
  for (int i = 0; i < kWorkers; ++i) {
    const auto scope = graph.scope(
        {.device = detail::concat("/job:worker/task:", i, "/device:cpu:0"), .replica = i});
    const Model made = make_model(graph, model, {.held = true});
    towers.push_back({.replica = i, .loss = made.loss, .update = made.update});
  }
  Session session =
      Session::connect(graph, nodes.addresses(),
                       {.process = {.threads = 1}, .cluster = "bench", .wait_for = nodes.names()});
  const StepTimes times = train_over(session, towers, steps, changes);

  // The median of steps far from any change, the longest of those around each, and the longest of
  // as many steps halfway between two changes, which shows what the machine adds.
  StepTimes far, around, between;
  const auto longest = [&](int64_t step) {
    return *std::max_element(times.begin() + step - kAround, times.begin() + step + kAround);
  };
  for (int64_t step = kUntimed; step < steps; ++step) {
    const auto near = changes.lower_bound(step - kAround);
    if (near == changes.end() || *near > step + kAround)
      far.push_back(times[static_cast<size_t>(step)]);
  }
  for (const int64_t step : changes) {
    around.push_back(longest(step));
    between.push_back(longest(step - every / 2));
  }
  const double median = quantile(far, 0.5);
  const std::vector<std::pair<std::string, std::string>> config = {
      {"model", detail::concat("\"", model, "\"")},
      {"changes", std::to_string(changes.size())},
      {"steps", std::to_string(steps)},
      {"around", std::to_string(2 * kAround)}};
  const auto say = [&](const char* metric, double value, const char* unit, const char* statistic) {
    auto labelled = config;
    labelled.emplace_back("statistic", detail::concat("\"", statistic, "\""));
    report(options, "switch", metric, value, unit, labelled);
  };
  say("step_ms", median, "ms", "median");
  say("change_of_step", quantile(around, 0.5) / median, "ratio", "median");
  say("change_of_step_most", quantile(around, 1) / median, "ratio", "maximum");
  say("between_of_step", quantile(between, 0.5) / median, "ratio", "median");
  say("between_of_step_most", quantile(between, 1) / median, "ratio", "maximum");
  return 0;
}

}  // namespace troupe::bench
