// train_digits: trains a convolutional network on handwritten digits with two towers and parameter
// shards, first with the synchronous, then with the asynchronous aggregation rule; the same graph
// both times.
//
// On a cluster (TROUPE_CLUSTER, set by `actor-node up`) tower i runs on /job:worker/task:i and
// parameters live on the ps tasks; without one, everything runs in this process, with the same bits
// in the synchronous half.
#include <signal.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "apps/console_log.hpp"
#include "troupe/data.hpp"
#include "troupe/ops.hpp"
#include "troupe/train.hpp"
#include "troupe/trainer.hpp"

namespace options = boost::program_options;
using namespace troupe;

namespace {

constexpr int kTowers = 2;
constexpr uint64_t kSeed = 1;

struct Setting {
  TrainTest data;
  std::string name;
  int64_t side = 8;  // images are [side, side, 1]
  int64_t filter = 3, channels = 16, hidden = 64;
  int64_t batch = 32;  // per tower
  int64_t steps = 0;
  double learning_rate = 1e-3;
  double wanted_accuracy = 0;  // percent
};

struct Network {
  std::vector<Tower> towers;
  Output images, classes;  // for evaluation: [n, side, side, 1] f32 -> [n] i64
};

// [height, width, in, out] filters and [in, out] matrices, He et al. 2015: stddev sqrt(2 / fan_in).
Output weight(Graph& g, std::string_view name, const Shape& shape, int64_t seed) {
  int64_t fan_in = 1;
  for (int i = 0; i + 1 < shape.ndim(); ++i) fan_in *= shape[i];
  return parameter(
      name, truncated_normal(g, shape, 0, std::sqrt(2.0 / static_cast<double>(fan_in)), seed));
}

Output bias(Graph& g, std::string_view name, int64_t size) {
  return parameter(name, fill(g, {size}, 0));
}

// images [n, side, side, 1] -> logits [n, 10]
Output logits_of(Graph& g, const Setting& s, Output images, bool training) {
  Output x =
      relu(bias_add(conv2d(images, weight(g, "conv1/w", {s.filter, s.filter, 1, s.channels}, 11)),
                    bias(g, "conv1/b", s.channels)));
  int64_t side = s.side;
  if (side > 8) {
    x = max_pool2d(x);
    side /= 2;
  }
  x = relu(bias_add(
      conv2d(x, weight(g, "conv2/w", {s.filter, s.filter, s.channels, 2 * s.channels}, 12)),
      bias(g, "conv2/b", 2 * s.channels)));
  x = max_pool2d(x);
  side /= 2;
  const int64_t flat = side * side * 2 * s.channels;
  x = reshape(x, {-1, flat});
  x = relu(
      bias_add(matmul(x, weight(g, "fc1/w", {flat, s.hidden}, 13)), bias(g, "fc1/b", s.hidden)));
  if (training) x = dropout(x, 0.5, 15);
  return bias_add(matmul(x, weight(g, "fc2/w", {s.hidden, 10}, 14)), bias(g, "fc2/b", 10));
}

Network build(Graph& g, const Setting& s, const Batches& batches, bool on_cluster) {
  Network net;
  for (int i = 0; i < kTowers; ++i) {
    const std::string device = on_cluster ? detail::concat("/job:worker/task:", i) : "";
    auto scope = g.scope({.name = detail::concat("tower", i), .device = device, .slot = i});
    Output images = placeholder(g, DType::f32, {-1, s.side, s.side, 1}, "images");
    Output labels = placeholder(g, DType::i64, {-1}, "labels");
    Output loss = reduce_mean(softmax_cross_entropy(logits_of(g, s, images, true), labels));
    Output update = minimize(check_finite(loss, "the loss"), adam(s.learning_rate));
    net.towers.push_back({i, loss, update, {images, labels}, [&batches, i](int64_t step) {
                            Batch b = batches.at(step, i);
                            return std::vector<Tensor>{b.features, b.labels};
                          }});
  }
  auto scope = g.scope({.name = "evaluation"});
  net.images = placeholder(g, DType::f32, {-1, s.side, s.side, 1}, "images");
  net.classes = argmax(logits_of(g, s, net.images, false));
  return net;
}

double accuracy_percent(Session& session, const Network& net, const Dataset& test) {
  Callable classify = session.prepare({net.classes}, {net.images});
  const int64_t n = test.labels.size();
  int64_t right = 0;
  for (int64_t begin = 0; begin < n; begin += 1000) {
    const int64_t end = std::min(n, begin + 1000);
    const Tensor classes = classify({test.features.rows(begin, end)})[0];
    const auto want = test.labels.rows(begin, end);
    for (int64_t i = 0; i < end - begin; ++i)
      right += classes.data<int64_t>()[i] == want.data<int64_t>()[i];
  }
  return 100.0 * static_cast<double>(right) / static_cast<double>(n);
}

// One line that changes in place on a terminal; a line now and then in a pipe.
class ProgressLine {
 public:
  explicit ProgressLine(std::string label) : label_(std::move(label)), terminal_(isatty(1)) {}
  ~ProgressLine() { end(); }
  void show(const TrainProgress& p) {
    const auto now = std::chrono::steady_clock::now();
    const bool last = p.step >= p.steps;
    if (!last && now - shown_ <
                     (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(1000)))
      return;
    shown_ = now;
    std::printf("%s%s step %lld/%lld  loss %.4f  %.0f examples/s  ETA %.0f s%s",
                terminal_ ? "\r\033[K" : "", label_.c_str(), static_cast<long long>(p.step),
                static_cast<long long>(p.steps), p.loss, p.examples_per_second, p.remaining.count(),
                terminal_ ? "" : "\n");
    std::fflush(stdout);
    open_ = terminal_;
  }
  void end() {
    if (std::exchange(open_, false)) std::printf("\n");
  }

 private:
  const std::string label_;
  const bool terminal_;
  bool open_ = false;
  std::chrono::steady_clock::time_point shown_{};
};

// kill -9 of the process of "worker" or "ps" task 0, found by the file its supervisor keeps.
void kill_node(const std::string& job) {
  const char* directory = std::getenv("TROUPE_RUN_DIR");
  if (!directory) throw Error(Errc::invalid_argument, "--kill works only under actor-node up");
  pid_t pid = 0;
  std::ifstream(std::filesystem::path(directory) / (job + "-0.pid")) >> pid;
  if (pid <= 1) throw Error(Errc::io, "no pid file for /job:", job, "/task:0 in ", directory);
  std::printf("demo: kill -9 %d, which is /job:%s/task:0\n", pid, job.c_str());
  std::fflush(stdout);
  ::kill(pid, SIGKILL);
}

struct Outcome {
  TrainResult result;
  double accuracy = 0;
};

Outcome train_and_test(Session& session, const Network& net, const Setting& s, TrainOptions what,
                       const std::string& label, const std::string& kill) {
  ProgressLine line(label);
  bool killed = kill.empty();
  const auto begin = std::chrono::steady_clock::now();
  what.steps = s.steps;
  what.examples_per_step = s.batch;
  what.data_seed = kSeed;
  what.on_progress = [&](const TrainProgress& p) {
    line.show(p);
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
    std::fflush(stdout);
  };
  Outcome out;
  out.result = train(session, net.towers, what);
  line.end();
  out.accuracy = accuracy_percent(session, net, s.data.test);
  return out;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw Error(Errc::io, "cannot write ", path.string(), "; is the disk full?");
}

void print_tables(Session& session, const Callable& step) {
  std::printf("\nWhere the nodes of tower 0's training step ran\n  %-44s %-22s %s\n", "node", "op",
              "device");
  for (const PlacedNode& n : session.placement(step))
    std::printf("  %-44s %-22s %s\n", n.node.c_str(), n.op.c_str(), n.device.c_str());
  std::printf("\nWhere the parameters lived\n  %-12s %10s %10s %10s  %s\n", "parameter", "from",
              "elements", "bytes", "shard");
  for (const ParameterSlice& p : parameter_slices(session))
    std::printf("  %-12s %10lld %10lld %10lld  %s\n", p.parameter.c_str(),
                static_cast<long long>(p.offset), static_cast<long long>(p.size),
                static_cast<long long>(p.bytes), p.task.c_str());
  std::printf("\nWhat crossed between devices in tower 0's step\n  %-36s %10s %12s  %s\n", "tensor",
              "transfers", "bytes", "from -> to");
  for (const CutEdge& e : session.cut_edges(step))
    std::printf("  %-36s %10lld %12lld  %s -> %s\n", e.tensor.c_str(),
                static_cast<long long>(e.transfers), static_cast<long long>(e.bytes),
                e.source.c_str(), e.destination.c_str());
}

int run(const options::variables_map& given) {
  Setting s;
  if (given.count("data")) {
    s.name = "MNIST";
    s.data = load_mnist(given["data"].as<std::string>());
    s.side = 28, s.filter = 5, s.channels = 16, s.hidden = 128, s.batch = 64, s.steps = 1000,
    s.wanted_accuracy = 98.5;
  } else {
    s.name = "digits (UCI)";
    const Dataset all = load_digits(given["digits"].as<std::string>());
    constexpr int64_t kTest = 360;  // the last ones
    if (all.size() <= kTest)
      throw Error(Errc::bad_data, given["digits"].as<std::string>(), " has ", all.size(),
                  " records; more than ", kTest, " are needed");
    s.data = {all.rows(0, all.size() - kTest), all.rows(all.size() - kTest, all.size())};
    s.channels = 24, s.hidden = 128, s.steps = 1200, s.wanted_accuracy = 94;
  }
  if (given.count("steps")) s.steps = given["steps"].as<int64_t>();
  const std::string kill = given.count("kill") ? given["kill"].as<std::string>() : "";
  if (!kill.empty() && kill != "worker" && kill != "ps")
    throw Error(Errc::invalid_argument, "--kill wants worker or ps, got \"", kill, "\"");
  if (s.steps < 2) throw Error(Errc::invalid_argument, "--steps wants at least 2, got ", s.steps);
  const std::filesystem::path out = given["out"].as<std::string>();
  std::filesystem::create_directories(out);

  const char* cluster = std::getenv("TROUPE_CLUSTER");
  const Batches batches(s.data.train, {.batch_size = s.batch, .slots = kTowers, .seed = kSeed});
  Graph graph;
  const Network net = build(graph, s, batches, cluster != nullptr);
  ProcessOptions process;
  process.log = console_log(given["log-format"].as<std::string>(), "train_digits");
  process.log_level = log_level(given["log-level"].as<std::string>());

  const auto open_session = [&] {
    if (!cluster) return Session::local(graph, process);
    ConnectOptions c;
    c.process = process;
    if (const char* name = std::getenv("TROUPE_CLUSTER_NAME")) c.cluster = name;
    for (const char* job : {"ps", "worker"}) {
      const char* count = std::getenv(job == std::string("ps") ? "TROUPE_PS" : "TROUPE_WORKERS");
      for (int i = 0; count && i < std::atoi(count); ++i)
        c.wait_for.push_back(detail::concat("/job:", job, "/task:", i));
    }
    return Session::connect(graph, cluster, c);
  };
  std::printf(
      "data: %s, %lld training and %lld test images; %d towers, batch %lld each, %lld steps\n",
      s.name.c_str(), static_cast<long long>(s.data.train.labels.size()),
      static_cast<long long>(s.data.test.labels.size()), kTowers, static_cast<long long>(s.batch),
      static_cast<long long>(s.steps));

  Outcome results[2];
  const Aggregation rules[] = {Aggregation::sync, Aggregation::async};
  std::filesystem::path trace_file = out / "trace.json", dot_file = out / "graph.dot";
  for (int i = 0; i < 2; ++i) {
    Session session = open_session();
    TrainOptions what;
    what.rule = rules[i];
    what.checkpoint_dir = (out / (std::string("checkpoint-") + to_string(rules[i]))).string();
    what.checkpoint_every = std::max<int64_t>(1, s.steps / 10);
    what.resume = given.count("resume") > 0;
    if (!what.resume) std::filesystem::remove_all(what.checkpoint_dir);
    results[i] = train_and_test(session, net, s, what, to_string(rules[i]), kill);
    const Callable step =
        session.prepare({net.towers[0].loss, net.towers[0].update}, net.towers[0].feeds);
    if (i == 0) {
      write_file(dot_file, session.dot(step));
      // One more step of each tower under the tracer would move the weights, so the trace shows an
      // evaluation and a pull.
      session.start_trace();
      accuracy_percent(session, net, s.data.test);
      write_file(trace_file, session.stop_trace());
      print_tables(session, step);
    }
  }
  std::printf("\n%-6s %10s %10s %12s  %s\n", "rule", "steps", "seconds", "accuracy", "weights");
  for (int i = 0; i < 2; ++i)
    std::printf("%-6s %10lld %10.1f %10.2f %%  sha256 %s%s\n", to_string(rules[i]),
                static_cast<long long>(results[i].result.steps), results[i].result.seconds,
                results[i].accuracy, results[i].result.weights_sha256.c_str(),
                results[i].result.recoveries ? "  (shards recovered)" : "");
  std::printf(
      "checkpoints: %s, %s\ntrace: %s (open in chrome://tracing or ui.perfetto.dev)\nplaced graph: "
      "%s (Graphviz)\n",
      results[0].result.checkpoint.c_str(), results[1].result.checkpoint.c_str(),
      trace_file.c_str(), dot_file.c_str());

  bool good = true;
  if (cluster && (!kill.empty() || given.count("verify"))) {
    std::printf("the same synchronous training, undisturbed, in one process: ");
    std::fflush(stdout);
    Graph again;
    const Network alone = build(again, s, batches, false);
    Session session = Session::local(again, process);
    TrainOptions what;
    what.rule = Aggregation::sync;
    what.steps = s.steps;
    what.data_seed = kSeed;
    const TrainResult reference = train(session, alone.towers, what);
    good = reference.weights_sha256 == results[0].result.weights_sha256;
    std::printf("sha256 %s: %s\n", reference.weights_sha256.c_str(),
                good ? "equal, to the bit" : "NOT EQUAL");
  }
  for (const Outcome& o : results)
    if (given.count("steps") == 0 && o.accuracy < s.wanted_accuracy) {
      std::printf("accuracy %.2f %% is below the expected %.1f %%\n", o.accuracy,
                  s.wanted_accuracy);
      good = false;
    }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  options::options_description what(
      "train_digits: a convolutional network on handwritten digits, synchronously and "
      "asynchronously");
  what.add_options()("data", options::value<std::string>(),
                     "folder with MNIST's four IDX files, plain or .gz, to train on instead")(
      "digits", options::value<std::string>()->default_value("data/digits.csv.gz"),
      "the digits, CSV, plain or .gz")("steps", options::value<int64_t>(),
                                       "steps per tower and rule")(
      "kill", options::value<std::string>(),
      "worker or ps: kill -9 that process half way, in each half")(
      "verify", "compare the synchronous weights with a run in one process")(
      "resume", "go on from the newest checkpoints in --out")(
      "out", options::value<std::string>()->default_value("out/demo"),
      "folder for checkpoints, trace and graph")(
      "log-format", options::value<std::string>()->default_value("text"), "text or json")(
      "log-level", options::value<std::string>()->default_value("warn"),
      "trace, debug, info, warn or error")("help", "print this");
  try {
    options::variables_map given;
    options::store(options::command_line_parser(argc, argv).options(what).positional({}).run(),
                   given);
    options::notify(given);
    if (given.count("help")) {
      std::cout << what << "\n";
      return 0;
    }
    return run(given);
  } catch (const options::error& e) {
    std::cerr << "train_digits: " << e.what() << "; see --help\n";
    return 64;
  } catch (const Error& e) {
    std::cerr << "train_digits: " << e.what() << "\n";
    return exit_code(e.code());
  } catch (const std::filesystem::filesystem_error& e) {
    std::cerr << "train_digits: " << e.what() << "\n";
    return exit_code(Errc::io);
  } catch (const std::exception& e) {
    std::cerr << "train_digits: " << e.what() << "\n";
    return 70;
  }
}
