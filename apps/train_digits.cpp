// train_digits: a convolutional network on handwritten digits, synchronously and asynchronously.
//
// Towers and parameter shards train it, with the synchronous, then with the asynchronous
// aggregation rule; the same graph both times. On a cluster (--spec, or TROUPE_CLUSTER as set by
// `actor-node up`) the towers run on the workers and parameters live on the ps tasks; without one,
// everything runs in this process, with the same bits in the synchronous half.
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "apps/program/ledger_table.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "apps/program/tables.hpp"
#include "apps/train_digits/network.hpp"
#include "apps/train_digits/report.hpp"
#include "apps/train_digits/switches.hpp"

using namespace troupe;

namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kValidations = 12;  // in one training

struct Options : ProgramOptions {
  std::optional<std::string> digits, kill, rule, switches, trace;
  std::string compute = "f32";
  std::optional<int64_t> steps, replicas, channels, hidden;
  std::optional<double> dropout, learning_rate;
  int64_t validation = 0;
  bool verify = false, ledger = false;
};

void add_options(Flags& flags, Options& to) {
  flags.add("digits", &to.digits, "the digits, CSV, plain or .gz (default: those that ship)");
  flags.add("steps", &to.steps, "steps per tower and rule");
  flags.add("replicas", &to.replicas,
            "towers, each on a worker of its own; several share one as long as there are fewer "
            "workers (default: 2, on the workers in turn)");
  flags.add("rule", &to.rule,
            detail::concat("this one alone: ", kRules, " (default: sync, then async)"));
  flags.add("switch", &to.switches,
            "change the rule at steps: STEP=RULE,... such as 200=ssp:3,300=async; begins with "
            "--rule, or sync");
  flags.add("channels", &to.channels, "of the first convolution; the second has twice");
  flags.add("hidden", &to.hidden, "units of the hidden layer");
  flags.add("dropout", &to.dropout, "part of them left out while training");
  flags.add("learning-rate", &to.learning_rate, "of Adam");
  flags.add("compute", &to.compute, "dtype of products: f32, or mixed precision with bf16 or f16");
  flags.add("validation", &to.validation,
            "training images to hold out, whose accuracy is shown while training");
  flags.add("kill", &to.kill, "worker or ps: kill -9 that process half way, in each half");
  flags.add("verify", &to.verify, "compare the synchronous weights with a run in one process");
  flags.add("ledger", &to.ledger,
            "for each replica and parameter, print how its gradients have ended");
  flags.add("trace", &to.trace,
            "file for the trace of a step of each tower, which troupe trace reads (default: "
            "trace.json in --out)");
  add_common_flags(flags, to,
                   {.data = "folder with MNIST's four IDX files, plain or .gz, to train on instead",
                    .resume = "go on from the newest checkpoints in --out"});
}

// kill -9 of the process of "worker" or "ps" task 0, found by the file its supervisor keeps.
void kill_node(const std::string& job) {
  const char* directory = std::getenv("TROUPE_RUN_DIR");
  if (!directory) throw Error(Errc::invalid_argument, "--kill works only under actor-node up");
  pid_t pid = 0;
  std::ifstream(std::filesystem::path(directory) / (job + "-0.pid")) >> pid;
  if (pid <= 1) throw Error(Errc::io, "no pid file for /job:", job, "/task:0 in ", directory);
  std::printf("%sdemo: kill -9 %d, which is /job:%s/task:0\n", isatty(1) ? "\n" : "", pid,
              job.c_str());
  ::kill(pid, SIGKILL);
}

Setting setting_of(const Options& given) {
  Setting s = given.data ? mnist_setting(*given.data, given.validation)
                         : digits_setting(given.digits ? *given.digits : shipped_digits("--digits"),
                                          given.validation);
  s.steps = given.steps.value_or(s.steps);
  s.channels = given.channels.value_or(s.channels);
  s.hidden = given.hidden.value_or(s.hidden);
  s.dropout = given.dropout.value_or(s.dropout);
  s.learning_rate = given.learning_rate.value_or(s.learning_rate);
  if (s.steps < 2) throw Error(Errc::invalid_argument, "--steps wants at least 2, got ", s.steps);
  const int64_t towers = given.replicas.value_or(kTowers);
  if (towers < 1 || towers * s.batch > s.train.size())
    throw Error(Errc::invalid_argument, "--replicas wants 1 to ", s.train.size() / s.batch,
                ", the batches of ", s.batch, " that the training images make, got ", towers);
  if (s.channels < 1 || s.hidden < 1)
    throw Error(Errc::invalid_argument, "--channels and --hidden want at least 1, got ", s.channels,
                " and ", s.hidden);
  if (!(s.dropout >= 0 && s.dropout < 1))
    throw Error(Errc::invalid_argument, "--dropout wants a part in [0, 1), got ", s.dropout);
  if (!(s.learning_rate > 0 && std::isfinite(s.learning_rate)))
    throw Error(Errc::invalid_argument, "--learning-rate wants a number above 0, got ",
                s.learning_rate);
  // The bar is for the network as it was chosen.
  if (given.steps || given.replicas || given.channels || given.hidden || given.dropout ||
      given.learning_rate)
    s.wanted_accuracy = 0;
  s.check_loss = given.training.bad_gradients != "skip";
  s.compute = dtype_from_string(given.compute);
  if (s.compute != DType::f32 && !is_half(s.compute))
    throw Error(Errc::invalid_argument, "--compute is f32, bf16 or f16, not ", s.compute);
  return s;
}

TrainOptions train_options(const Setting& s, Aggregation rule, const Options& given) {
  constexpr int64_t kCheckpoints = 10;
  TrainOptions out;
  out.rule = rule;
  out.steps = s.steps;
  out.examples_per_step = s.batch;
  out.data_seed = kSeed;
  out.compression = given.training.compression;
  out.checkpoint_every = std::max<int64_t>(1, s.steps / kCheckpoints);  // residuals are pushed then
  return out;
}

// Writes into `options` where its checkpoints are.
Outcome train_and_test(Session& session, const Network& net, const Setting& s,
                       TrainOptions& options, Switches switches, const Options& given,
                       const OutFolder& out, Plot& curve) {
  const Aggregation rule = *options.rule;
  // A resumed training has the rule of its checkpoint, until it is at the step of a change.
  if (given.resume && !switches.empty()) {
    options.rule.reset();
    switches.emplace(0, rule);
  }
  std::optional<RunningAccuracy> validation;
  if (s.validation.size() > 0) validation.emplace(session, net, s.validation);
  StepTrace trace(session, options.steps / 4);
  bool killed = !given.kill;
  int64_t validate_at = 0;
  TrainOptions watched = options;
  watched.on_progress = [&](const TrainProgress& p) {
    ask(session, std::exchange(switches, {}), p.step);
    if (validation && p.step >= validate_at) {
      validation->ask();
      validate_at = p.step + std::max<int64_t>(1, p.steps / kValidations);
    }
    if (p.step > 0) curve.add(to_string(rule), static_cast<double>(p.step), p.loss);
    trace.look(p);
    if (!killed && p.step > p.steps / 2) {
      killed = true;
      kill_node(*given.kill);
    }
  };
  Outcome outcome;
  const Trained trained =
      train_in_sight(session, net.towers, watched, given, out, to_string(rule), &curve,
                     [&] { return validation ? validation->shown() : ""; });
  options.checkpoint_dir = trained.options.checkpoint_dir;
  outcome.result = trained.result;
  outcome.trace = trace.end();
  after_training(session, options, [&] {
    if (validation) outcome.validation = accuracy_percent(session, net, s.validation);
    outcome.test = accuracy_percent(session, net, s.test);
  });
  return outcome;
}

std::vector<Aggregation> rules_of(const Options& given) {
  if (given.switches && given.verify)
    throw Error(Errc::invalid_argument,
                "--verify compares synchronous weights; leave out --switch");
  if (!given.rule && given.switches) return {Aggregation::sync};
  if (!given.rule) return {Aggregation::sync, Aggregation::async};
  const Aggregation rule = aggregation_from_string(*given.rule);
  if (given.verify && !rule.repeats())
    throw Error(Errc::invalid_argument, "--verify compares weights that every run has, as under ",
                "sync and local:H; leave out --rule ", *given.rule);
  return {rule};
}

// Says whether the accuracy on the test images is high enough; true if it is.
bool judge(const Outcomes& results, double wanted) {
  if (wanted <= 0) return true;
  bool good = true;
  for (const auto& [rule, o] : results)
    if (o.test < wanted) {
      std::printf("%s: accuracy %.2f %% is below the expected %g %%\n", to_string(rule).c_str(),
                  o.test, wanted);
      good = false;
    }
  if (good) std::printf("passed: at least %g %% wanted\n", wanted);
  return good;
}

// The first training again, in this process, where nothing dies.
bool verify(const Setting& s, const Options& given, const Aggregation& rule, const Batches& batches,
            int64_t towers, const ProcessOptions& process, const std::string& expected) {
  std::printf("the same training by %s, undisturbed, in one process: ", to_string(rule).c_str());
  std::fflush(stdout);
  Graph graph(process.ops);
  const Network net = build(graph, s, batches, towers, 0);
  Session session = Session::local(graph, process);
  const TrainResult result = train(session, net.towers, train_options(s, rule, given));
  const bool equal = result.weights_sha256 == expected;
  std::printf("sha256 %s: %s\n", result.weights_sha256.c_str(),
              equal ? "equal, to the bit" : "NOT EQUAL");
  return equal;
}

int run(const Options& given) {
  const Setting s = setting_of(given);
  const Cluster cluster = given.where();
  if (given.kill && given.kill != "worker" && given.kill != "ps")
    throw Error(Errc::invalid_argument, "--kill wants worker or ps, got \"", *given.kill, "\"");
  if (given.kill && !std::getenv("TROUPE_RUN_DIR"))
    throw Error(Errc::invalid_argument, "--kill works only under actor-node up");
  if (given.verify && cluster.addresses.empty())
    throw Error(
        Errc::invalid_argument,
        "--verify compares a run on a cluster with one in one process; this is one process");
  const std::vector<Aggregation> rules = rules_of(given);
  const Switches switches = given.switches ? switches_from(*given.switches) : Switches();
  if (const auto beyond = switches.lower_bound(s.steps); beyond != switches.end())
    std::printf("--switch: the training ends at step %lld, before the change at step %lld\n",
                static_cast<long long>(s.steps), static_cast<long long>(beyond->first));
  const OutFolder out(given.out, true);
  const ProcessOptions process = given.process();
  const LogSink say = given.say();

  const int64_t towers = given.replicas.value_or(kTowers);
  const Batches batches(s.train, {.batch_size = s.batch, .replicas = towers, .seed = kSeed});
  Graph graph(process.ops);
  const bool own = given.replicas && cluster.workers > 0;  // a worker for each tower
  const Network net = build(graph, s, batches, towers, own ? towers : cluster.workers);
  std::printf(
      "data: %s, %lld training, %lld validation and %lld test images; %lld towers, batch %lld "
      "each, "
      "%lld steps\n",
      s.name.c_str(), static_cast<long long>(s.train.size()),
      static_cast<long long>(s.validation.size()), static_cast<long long>(s.test.size()),
      static_cast<long long>(towers), static_cast<long long>(s.batch),
      static_cast<long long>(s.steps));

  Outcomes results;
  Plot curve{"Handwritten digits, by rule", "step", "loss"};
  std::string trace, picture;
  const std::filesystem::path trace_file =
      given.trace ? std::filesystem::path(*given.trace) : out / "trace.json";
  for (const Aggregation& rule : rules) {
    Session session = cluster.open(graph, process);
    TrainOptions options = train_options(s, rule, given);
    results.emplace_back(rule,
                         train_and_test(session, net, s, options, switches, given, out, curve));
    if (given.ledger) print_ledger(push_ledger(session), to_string(rule));
    if (rule != rules.front()) continue;
    std::vector<Callable> steps;
    Callable whole;
    after_training(session, options, [&] {
      steps.clear();
      std::vector<Output> fetches, feeds;
      for (const Tower& t : net.towers) {
        steps.push_back(session.prepare({t.loss, t.update}, t.feeds));
        fetches.insert(fetches.end(), {t.loss, t.update});
        feeds.insert(feeds.end(), t.feeds.begin(), t.feeds.end());
      }
      whole = session.prepare(fetches, feeds);
    });
    picture = write_extra(out / "graph.dot", session.dot(whole), say);
    const std::string& events = results.back().second.trace;
    trace = events.empty() ? "none, as there was no step left to train"
                           : write_extra(trace_file, events, say);
    print_tables(session, whole, steps);
  }
  print_results(results);
  std::printf(
      "trace (for chrome://tracing or ui.perfetto.dev): %s\nplaced graph (Graphviz): %s\n"
      "curve: %s\n",
      trace.c_str(), picture.c_str(), write_plot(out, "curve", curve, say).c_str());

  bool good = true;
  if ((given.kill || given.verify) && rules.front().repeats() && switches.empty())
    good = verify(s, given, rules.front(), batches, towers, process,
                  results[0].second.result.weights_sha256);
  return judge(results, s.wanted_accuracy) && good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "train_digits", given.out = "out/demo";
  return run_program(
      given, "a convolutional network on handwritten digits, synchronously and asynchronously",
      argc, argv, [&](Flags& flags) { add_options(flags, given); }, [&] { return run(given); });
}
