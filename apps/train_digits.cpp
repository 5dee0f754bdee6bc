// train_digits: trains a convolutional network on handwritten digits with two towers and parameter
// shards, first with the synchronous, then with the asynchronous aggregation rule; the same graph
// both times.
//
// On a cluster (--spec, or TROUPE_CLUSTER as set by `actor-node up`) the towers run on the workers
// and parameters live on the ps tasks; without one, everything runs in this process, with the same
// bits in the synchronous half.
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "apps/console_log.hpp"
#include "apps/flags.hpp"
#include "apps/folder_claim.hpp"
#include "apps/plugins.hpp"
#include "apps/train_digits/network.hpp"
#include "apps/train_digits/report.hpp"
#include "troupe/cluster.hpp"
#include "troupe/custom_op.hpp"

using namespace troupe;

namespace {

constexpr uint64_t kSeed = 1;
constexpr int kTasksMax = 1024;                          // a mesh has no more members
constexpr int64_t kValidations = 12, kCheckpoints = 10;  // in one training

struct Options {
  std::optional<std::string> data, spec, cluster, kill, trace;
  std::string digits = "data/digits.csv.gz", compute = "f32", out = "out/demo";
  std::optional<int64_t> steps, channels, hidden;
  std::optional<double> dropout, learning_rate;
  int64_t validation = 0;
  int wait = 60;
  std::vector<std::string> plugins;
  bool verify = false, resume = false;
  std::string log_format = "text", log_level = "warn";
};

void add_options(Flags& flags, Options& to) {
  flags.add("data", &to.data,
            "folder with MNIST's four IDX files, plain or .gz, to train on instead");
  flags.add("digits", &to.digits, "the digits, CSV, plain or .gz");
  flags.add("steps", &to.steps, "steps per tower and rule");
  flags.add("channels", &to.channels, "of the first convolution; the second has twice");
  flags.add("hidden", &to.hidden, "units of the hidden layer");
  flags.add("dropout", &to.dropout, "part of them left out while training");
  flags.add("learning-rate", &to.learning_rate, "of Adam");
  flags.add("compute", &to.compute, "dtype of products: f32, or mixed precision with bf16 or f16");
  flags.add("validation", &to.validation,
            "training images to hold out, whose accuracy is shown while training");
  flags.add("spec", &to.spec, "file that says where the nodes of a cluster listen, to train there");
  flags.add("cluster", &to.cluster, "name of that cluster (default: troupe)");
  flags.add("wait", &to.wait, "seconds until its nodes must be there");
  flags.add("plugin", &to.plugins,
            "shared library with ops that the cluster has, too; may be given again");
  flags.add("kill", &to.kill, "worker or ps: kill -9 that process half way, in each half");
  flags.add("verify", &to.verify, "compare the synchronous weights with a run in one process");
  flags.add("resume", &to.resume, "go on from the newest checkpoints in --out");
  flags.add("out", &to.out, "folder for checkpoints, trace and graph");
  flags.add("trace", &to.trace,
            "file for the trace of a step of each tower, which troupe trace reads (default: "
            "trace.json in --out)");
  flags.add("log-format", &to.log_format, "text or json");
  flags.add("log-level", &to.log_level, "trace, debug, info, warn or error");
}

// kill -9 of the process of "worker" or "ps" task 0, found by the file its supervisor keeps.
void kill_node(const std::string& job) {
  const char* directory = std::getenv("TROUPE_RUN_DIR");
  if (!directory) throw Error(Errc::invalid_argument, "--kill works only under actor-node up");
  pid_t pid = 0;
  std::ifstream(std::filesystem::path(directory) / (job + "-0.pid")) >> pid;
  if (pid <= 1) throw Error(Errc::io, "no pid file for /job:", job, "/task:0 in ", directory);
  std::printf("demo: kill -9 %d, which is /job:%s/task:0\n", pid, job.c_str());
  ::kill(pid, SIGKILL);
}

// For the handler: what comes after the signal's name.
char stopped_text[4600];
bool stdout_is_terminal = false;

// A last line, and then what the signal would have done without us.
void on_stop(int number) {
  static volatile sig_atomic_t said = 0;
  if (!said) {
    said = 1;
    const char* const name = number == SIGINT   ? "\nstopped by SIGINT"
                             : number == SIGHUP ? "\nstopped by SIGHUP"
                                                : "\nstopped by SIGTERM";
    const int skipped = stdout_is_terminal ? 0 : 1;  // only there a line may have been begun
    [[maybe_unused]] ssize_t n = write(1, name + skipped, std::strlen(name + skipped));
    n = write(1, stopped_text, std::strlen(stopped_text));
  }
  signal(number, SIG_DFL);
  ::kill(getpid(), number);
}

void say_when_stopped(const std::filesystem::path& out) {
  stdout_is_terminal = isatty(1) == 1;
  std::snprintf(
      stopped_text, sizeof stopped_text,
      "; checkpoints, if there are any yet, are in %s; go on with the same command and --resume\n",
      out.c_str());
  struct sigaction action = {};
  action.sa_handler = on_stop;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, number);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

// Where the cluster is: none for a session in this process.
struct Cluster {
  std::string addresses;  // "host:port,host:port"; empty: none
  std::string name = "troupe";
  std::vector<std::string> tasks = {};  // ps and workers
  int workers = 0;
  std::chrono::seconds patience{60};  // for nodes that are not there yet

  Session open(Graph& graph, const ProcessOptions& process) const {
    if (addresses.empty()) return Session::local(graph, process);
    ConnectOptions connect;
    connect.process = process;
    connect.cluster = name;
    connect.wait_for = tasks;
    connect.timeout = patience;
    return Session::connect(graph, addresses, connect);
  }
};

// How many tasks a variable of the environment names; nothing if it is not set.
std::optional<int> tasks_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return std::nullopt;
  int count = -1;
  const char* end = text + std::strlen(text);
  const auto [read, error] = std::from_chars(text, end, count);
  if (error != std::errc() || read != end || count < 0 || count > kTasksMax)
    throw Error(Errc::invalid_argument, variable, " wants a number of tasks from 0 to ", kTasksMax,
                ", got \"", text, "\"");
  return count;
}

Cluster cluster_of(const Options& given) {
  Cluster out;
  if (const char* name = std::getenv("TROUPE_CLUSTER_NAME")) out.name = name;
  if (given.cluster) out.name = *given.cluster;
  out.patience = std::chrono::seconds(given.wait);
  if (out.patience < std::chrono::seconds(1))
    throw Error(Errc::invalid_argument, "--wait wants at least 1 s, got ", given.wait);
  const auto add = [&](const char* job, int count) {
    for (int i = 0; i < count; ++i) out.tasks.push_back(detail::concat("/job:", job, "/task:", i));
  };
  if (given.spec) {
    const ClusterSpec spec = read_cluster_spec(*given.spec);
    for (const std::string& address : spec.addresses())
      out.addresses += (out.addresses.empty() ? "" : ",") + address;
    if (spec.jobs.count("ps")) add("ps", static_cast<int>(spec.jobs.at("ps").size()));
    out.workers = static_cast<int>(spec.jobs.at("worker").size());
    add("worker", out.workers);
  } else if (const char* addresses = std::getenv("TROUPE_CLUSTER")) {
    if (!*addresses)
      throw Error(Errc::invalid_argument,
                  "TROUPE_CLUSTER is empty; set it to host:port,host:port or unset it");
    const std::optional<int> ps = tasks_in("TROUPE_PS"), workers = tasks_in("TROUPE_WORKERS");
    out.addresses = addresses;
    add("ps", ps.value_or(0));
    out.workers = workers.value_or(kTowers);
    add("worker", workers.value_or(0));
  }
  return out;
}

Setting setting_of(const Options& given) {
  Setting s = given.data ? mnist_setting(*given.data, given.validation)
                         : digits_setting(given.digits, given.validation);
  s.steps = given.steps.value_or(s.steps);
  s.channels = given.channels.value_or(s.channels);
  s.hidden = given.hidden.value_or(s.hidden);
  s.dropout = given.dropout.value_or(s.dropout);
  s.learning_rate = given.learning_rate.value_or(s.learning_rate);
  if (s.steps < 2) throw Error(Errc::invalid_argument, "--steps wants at least 2, got ", s.steps);
  if (s.channels < 1 || s.hidden < 1)
    throw Error(Errc::invalid_argument, "--channels and --hidden want at least 1, got ", s.channels,
                " and ", s.hidden);
  if (!(s.dropout >= 0 && s.dropout < 1))
    throw Error(Errc::invalid_argument, "--dropout wants a part in [0, 1), got ", s.dropout);
  if (!(s.learning_rate > 0 && std::isfinite(s.learning_rate)))
    throw Error(Errc::invalid_argument, "--learning-rate wants a number above 0, got ",
                s.learning_rate);
  // The bar is for the network as it was chosen.
  if (given.steps || given.channels || given.hidden || given.dropout || given.learning_rate)
    s.wanted_accuracy = 0;
  s.compute = dtype_from_string(given.compute);
  if (s.compute != DType::f32 && !is_half(s.compute))
    throw Error(Errc::invalid_argument, "--compute is f32, bf16 or f16, not ", s.compute);
  return s;
}

struct Outcome {
  TrainResult result;
  std::optional<double> validation;  // accuracies, percent
  double test = 0;
  std::string trace;  // of a training step
};

// Does the work that follows a training. If a process is lost on the way, the work is done again,
// with the parameters of the last checkpoint, as a ps that is back has none.
template <class F>
void after_training(Session& session, const TrainOptions& what, const F& work) {
  const auto end = std::chrono::steady_clock::now() + what.patience;
  for (;;) {
    try {
      return work();
    } catch (const Error& e) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      if ((e.code() != Errc::peer_lost && e.code() != Errc::stale) || left.count() <= 0) throw;
      std::printf("%s: a process was lost after the training; its last checkpoint is loaded: %s\n",
                  to_string(what.rule), e.what());
      load_parameters(session, what.checkpoint_dir, left);
    }
  }
}

// `kill`: a job whose process is killed half way; empty: none.
Outcome train_and_test(Session& session, const Network& net, const Setting& s, TrainOptions what,
                       const std::string& kill) {
  const std::string label = to_string(what.rule);
  ProgressLine line(label);
  std::optional<RunningAccuracy> validation;
  if (s.validation.size() > 0) validation.emplace(session, net, s.validation);
  StepTrace trace(session, what.steps / 4);
  bool killed = kill.empty();
  int64_t validate_at = 0;
  const auto begin = std::chrono::steady_clock::now();
  what.on_progress = [&](const TrainProgress& p) {
    if (validation && p.step >= validate_at) {
      validation->ask();
      validate_at = p.step + std::max<int64_t>(1, p.steps / kValidations);
    }
    line.show(p, validation ? validation->percent() : std::nullopt);
    trace.look(p);
    if (!killed && p.step > p.steps / 2) {
      killed = true;
      line.end();
      kill_node(kill);
    }
  };
  what.on_event = [&](const TrainEvent& e) {
    line.end();
    std::printf("%s [%.1f s] %s\n", label.c_str(),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                e.text.c_str());
  };
  Outcome out;
  out.result = train(session, net.towers, what);
  line.end();
  out.trace = trace.end();
  after_training(session, what, [&] {
    if (validation) out.validation = accuracy_percent(session, net, s.validation);
    out.test = accuracy_percent(session, net, s.test);
  });
  return out;
}

TrainOptions train_options(const Setting& s, Aggregation rule) {
  TrainOptions out;
  out.rule = rule;
  out.steps = s.steps;
  out.examples_per_step = s.batch;
  out.data_seed = kSeed;
  return out;
}

void print_results(const std::vector<std::pair<Aggregation, Outcome>>& results) {
  const bool validated = results[0].second.validation.has_value();
  std::printf("\n%-6s %10s %10s %s%12s  %s\n", "rule", "steps", "seconds",
              validated ? "  validation " : "", "test", "weights");
  for (const auto& [rule, o] : results) {
    char validation[16] = "";
    if (o.validation) std::snprintf(validation, sizeof validation, "%10.2f %% ", *o.validation);
    std::printf("%-6s %10lld %10.1f %s%10.2f %%  sha256 %s%s\n", to_string(rule),
                static_cast<long long>(o.result.steps), o.result.seconds, validation, o.test,
                o.result.weights_sha256.c_str(), o.result.recoveries ? "  (shards recovered)" : "");
  }
  for (const auto& [rule, o] : results)
    std::printf("newest checkpoint of %s: %s\n", to_string(rule),
                o.result.checkpoint.empty() ? "none" : o.result.checkpoint.c_str());
}

// Says whether the accuracy on the test images is high enough; true if it is.
bool judge(const std::vector<std::pair<Aggregation, Outcome>>& results, double wanted) {
  if (wanted <= 0) return true;
  bool good = true;
  for (const auto& [rule, o] : results)
    if (o.test < wanted) {
      std::printf("%s: accuracy %.2f %% is below the expected %g %%\n", to_string(rule), o.test,
                  wanted);
      good = false;
    }
  if (good) std::printf("passed: at least %g %% wanted\n", wanted);
  return good;
}

// The synchronous training again, in this process, where nothing dies.
bool verify(const Setting& s, const Batches& batches, const ProcessOptions& process,
            const std::string& expected) {
  std::printf("the same synchronous training, undisturbed, in one process: ");
  std::fflush(stdout);
  Graph graph(process.ops);
  const Network net = build(graph, s, batches, 0);
  Session session = Session::local(graph, process);
  const TrainResult result = train(session, net.towers, train_options(s, Aggregation::sync));
  const bool equal = result.weights_sha256 == expected;
  std::printf("sha256 %s: %s\n", result.weights_sha256.c_str(),
              equal ? "equal, to the bit" : "NOT EQUAL");
  return equal;
}

int run(const Options& given) {
  const Setting s = setting_of(given);
  const Cluster cluster = cluster_of(given);
  const std::string kill = given.kill.value_or("");
  if (!kill.empty() && kill != "worker" && kill != "ps")
    throw Error(Errc::invalid_argument, "--kill wants worker or ps, got \"", kill, "\"");
  if (!kill.empty() && !std::getenv("TROUPE_RUN_DIR"))
    throw Error(Errc::invalid_argument, "--kill works only under actor-node up");
  if (given.verify && cluster.addresses.empty())
    throw Error(
        Errc::invalid_argument,
        "--verify compares a run on a cluster with one in one process; this is one process");
  const std::filesystem::path out = std::filesystem::absolute(given.out).lexically_normal();
  std::filesystem::create_directories(out);
  const FolderClaim claim(out, "--out");
  say_when_stopped(out);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow: its writer gets an error
  ProcessOptions process;
  process.ops = ops_with_plugins(plugins_for(given.plugins));
  process.log = console_log(given.log_format, "train_digits");
  process.log_level = log_level(given.log_level);
  const LogSink say = console_voice(given.log_format, "train_digits");

  const Batches batches(s.train, {.batch_size = s.batch, .replicas = kTowers, .seed = kSeed});
  Graph graph(process.ops);
  const Network net = build(graph, s, batches, cluster.workers);
  std::printf(
      "data: %s, %lld training, %lld validation and %lld test images; %d towers, batch %lld each, "
      "%lld steps\n",
      s.name.c_str(), static_cast<long long>(s.train.size()),
      static_cast<long long>(s.validation.size()), static_cast<long long>(s.test.size()), kTowers,
      static_cast<long long>(s.batch), static_cast<long long>(s.steps));

  std::vector<std::pair<Aggregation, Outcome>> results;
  std::string trace, picture;
  const std::filesystem::path trace_file =
      given.trace ? std::filesystem::path(*given.trace) : out / "trace.json";
  for (const Aggregation rule : {Aggregation::sync, Aggregation::async}) {
    Session session = cluster.open(graph, process);
    TrainOptions what = train_options(s, rule);
    what.checkpoint_dir = (out / (std::string("checkpoint-") + to_string(rule))).string();
    what.checkpoint_every = std::max<int64_t>(1, s.steps / kCheckpoints);
    what.resume = given.resume;
    if (!what.resume) std::filesystem::remove_all(what.checkpoint_dir);
    results.emplace_back(rule, train_and_test(session, net, s, what, kill));
    if (rule != Aggregation::sync) continue;
    std::vector<Callable> steps;
    Callable whole;
    after_training(session, what, [&] {
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
  std::printf("trace (for chrome://tracing or ui.perfetto.dev): %s\nplaced graph (Graphviz): %s\n",
              trace.c_str(), picture.c_str());

  bool good = true;
  if (!kill.empty() || given.verify)
    good = verify(s, batches, process, results[0].second.result.weights_sha256);
  return judge(results, s.wanted_accuracy) && good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line is seen when it is said, in a pipe, too
  return exit_code_of(console_voice("text", "train_digits"), [&] {
    Options given;
    Flags flags("train_digits",
                "train_digits: a convolutional network on handwritten digits, synchronously and "
                "asynchronously");
    add_options(flags, given);
    if (!flags.parse({argv + 1, argv + argc})) return 0;
    return exit_code_of(console_voice(given.log_format, "train_digits"),
                        [&] { return run(given); });
  });
}
