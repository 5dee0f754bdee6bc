// killed --to FILE --checkpoints DIR [--rule sync|async] [--every N] [--pause-ms N]: the training
// of bench/peers/killed.py, as PROGRAM of `actor-node up` with 2 ps and 2 workers.
//
// It trains until it is killed, goes on from the newest checkpoint when it is started again, and
// appends a line "SECONDS NAME STEPS PID" to FILE when a replica has done so many steps.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "bench/bench.hpp"
#include "troupe/cluster.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe::bench {
namespace {

constexpr int kWorkers = 2;
constexpr int64_t kWidth = 64, kBatch = 32;

// A linear layer; each step has a pause, so that all systems take as many steps a second.
std::vector<Tower> build(Graph& g, const std::function<void(int, int64_t)>& begins) {
  std::vector<Tower> towers;
  for (int i = 0; i < kWorkers; ++i) {
    const auto scope = g.scope({.name = detail::concat("tower", i),
                                .device = detail::concat("/job:worker/task:", i),
                                .replica = i});
    const Output x = placeholder(g, DType::f32, {kBatch, kWidth}, "x");
    const Output w = parameter("w", fill(g, {kWidth, kWidth}, 0.01f));
    const Output loss = reduce_mean(square(matmul(x, w)));
    towers.push_back({i, loss, minimize(loss, sgd(1e-3)), {x}, [i, begins](int64_t step) {
                        begins(i, step);
                        const std::vector<float> values(kBatch * kWidth, 0.5f);
                        return std::vector<Tensor>{Tensor::of<float>(values, {kBatch, kWidth})};
                      }});
  }
  return towers;
}

void append(int file, int replica, int64_t steps) {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  char line[96];
  const int size = std::snprintf(line, sizeof line, "%.6f worker%d %lld %d\n", now.count(), replica,
                                 static_cast<long long>(steps), static_cast<int>(getpid()));
  if (write(file, line, static_cast<size_t>(size)) != size)
    throw Error(Errc::io, "cannot write to --to: ", std::strerror(errno));
}

}  // namespace

int killed(const Options& options) {
  const char* address = std::getenv("TROUPE_CLUSTER");
  if (!address || !options.given("to") || !options.given("checkpoints"))
    throw Error(Errc::invalid_argument, "killed is PROGRAM of actor-node up, with --to FILE and ",
                "--checkpoints DIR");
  const std::string rule = options.text("rule", "sync");
  if (rule != "sync" && rule != "async")
    throw Error(Errc::invalid_argument, "--rule is sync or async, not ", rule);
  const int file =
      open(options.text("to", "").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) throw Error(Errc::io, "cannot open --to: ", std::strerror(errno));
  const std::chrono::milliseconds pause(options.integer("pause-ms", 20));
  Graph graph;
  // A replica that begins the step after its last one has done that; one that goes back has not.
  std::array<int64_t, kWorkers> begun;
  begun.fill(-1);
  const std::vector<Tower> towers = build(graph, [&](int replica, int64_t step) {
    int64_t& last = begun.at(static_cast<size_t>(replica));
    if (step > 0 && last == step - 1) append(file, replica, step);
    last = step;
    std::this_thread::sleep_for(pause);
  });
  ConnectOptions connect;
  if (const char* name = std::getenv("TROUPE_CLUSTER_NAME")) connect.cluster = name;
  connect.wait_for = {"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0",
                      "/job:worker/task:1"};
  connect.process.threads = 1;
  Session session = Session::connect(graph, address, connect);
  TrainOptions train_options;
  train_options.rule = rule == "sync" ? Aggregation::sync : Aggregation::async;
  train_options.steps = INT64_MAX / 2;
  train_options.checkpoint_dir = options.text("checkpoints", "");
  train_options.checkpoint_every = options.integer("every", 100);
  train_options.resume = true;
  train_options.on_event = [](const TrainEvent& e) {
    std::fprintf(stderr, "%s\n", e.text.c_str());
  };
  train(session, towers, train_options);
  return 0;
}

}  // namespace troupe::bench
