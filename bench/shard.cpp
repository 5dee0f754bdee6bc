// shard [--kib K] [--workers W]: pushes of K KiB a second that shards take: from this process into
// it, and from W worker processes into a ps. Each push is an update by itself, as under async.
#include <future>
#include <memory>
#include <vector>

#include "bench/bench.hpp"
#include "bench/nodes.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

constexpr int kEach = 64;  // parameters, to each of which a step pushes
constexpr int kTurns = 7;

// A program whose replicas push a gradient to each parameter in a step, each on its own device.
class Pushers {
 public:
  explicit Pushers(int64_t bytes) : session_(Session::local(graph_, {.threads = 1})) {
    steps_.push_back(session_.prepare({replica(bytes, 0, "")}));
  }
  Pushers(int64_t bytes, int workers)
      : nodes_(std::make_unique<Nodes>(places(workers))),
        session_(Session::connect(graph_, nodes_->addresses(),
                                  {.process = {.threads = 1},
                                   .cluster = "bench",
                                   .wait_for = nodes_->names(),
                                   .replicas = workers})) {
    for (int i = 0; i < workers; ++i) {
      const std::string device = detail::concat("/job:worker/task:", i, "/device:cpu:0");
      steps_.push_back(session_.prepare({replica(bytes, i, device)}));
    }
  }
  // Pushes a second of all replicas, each of which does so many steps.
  double turn(int steps) {
    std::vector<std::future<void>> ends;
    const auto begin = std::chrono::steady_clock::now();
    for (Callable& step : steps_)
      ends.push_back(std::async(std::launch::async, [&step, steps] {
        for (int i = 0; i < steps; ++i) step();
      }));
    for (std::future<void>& end : ends) end.get();
    return static_cast<double>(steps_.size()) * steps * kEach / seconds_since(begin);
  }

 private:
  static std::vector<NodePlace> places(int workers) {
    std::vector<NodePlace> out = {{.job = "ps"}};
    for (int i = 0; i < workers; ++i) out.push_back({.job = "worker", .task = i});
    return out;
  }
  Output replica(int64_t bytes, int64_t number, const std::string& device) {
    const auto scope = graph_.scope({.device = device, .replica = number});
    std::vector<Output> pushes;
    for (int i = 0; i < kEach; ++i) {
      const Output p = parameter(detail::concat("p", i), fill(graph_, {bytes / 4}, 0));
      pushes.push_back(push_gradient(p, fill(graph_, {bytes / 4}, 1), sgd(0.001)));
    }
    return group(graph_, pushes);
  }

  Graph graph_;
  std::unique_ptr<Nodes> nodes_;  // null: in this process
  Session session_;
  std::vector<Callable> steps_;
};

}  // namespace

int shard(const Options& options) {
  const int64_t kib = options.integer("kib", 1), workers = options.integer("workers", 4);
  if (kib < 1 || kib > 1024)
    throw Error(Errc::invalid_argument, "--kib wants 1 to 1,024, got ", kib);
  if (workers < 1 || workers > 64)
    throw Error(Errc::invalid_argument, "--workers wants 1 to 64, got ", workers);
  const auto measure = [&](Pushers&& pushers, int steps, int from) {
    pushers.turn(steps / 4);
    std::vector<double> rates;
    for (int i = 0; i < kTurns; ++i) rates.push_back(pushers.turn(steps));
    const std::vector<std::pair<const char*, double>> statistics = {{"median", 0.5},
                                                                    {"maximum", 1}};
    for (const auto& [statistic, p] : statistics)
      report(options, "shard", p == 1 ? "pushes_per_s_most" : "pushes_per_s", quantile(rates, p),
             "1/s",
             {{"kib", std::to_string(kib)},
              {"other_workers", std::to_string(from)},
              {"statistic", detail::concat("\"", statistic, "\"")}});
  };
  measure(Pushers(kib << 10), 2'000, 0);
  measure(Pushers(kib << 10, static_cast<int>(workers)), 400, static_cast<int>(workers));
  return 0;
}

}  // namespace troupe::bench
