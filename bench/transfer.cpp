// transfer [--mib M] [--rounds R]: a tensor that a kernel in one process makes and a kernel in
// another process of the machine reads. In turns with the same kernels in the first process, of
// which a scalar crosses; the difference is the cost of the size. A reader in the first process
// finds a part of the tensor in its cache.
#include <functional>
#include <vector>

#include "bench/bench.hpp"
#include "bench/nodes.hpp"
#include "troupe/error.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

constexpr int64_t kUntimed = 20;  // calls at the begin
constexpr int kHops = 100;

// Nodes of a graph that are placed on a worker.
class Placed {
 public:
  explicit Placed(Graph& graph) : graph_(graph) {}
  Output on(int worker, const std::function<Output()>& make) const {
    const auto scope =
        graph_.scope({.device = detail::concat("/job:worker/task:", worker, "/device:cpu:0")});
    return make();
  }

 private:
  Graph& graph_;
};

}  // namespace

int transfer(const Options& options) {
  const int64_t mib = options.integer("mib", 64), rounds = options.integer("rounds", 300);
  if (mib < 1 || mib > 1024)
    throw Error(Errc::invalid_argument, "--mib wants 1 to 1024, got ", mib);
  if (rounds < 1) throw Error(Errc::invalid_argument, "--rounds wants at least 1");
  const int64_t n = (mib << 20) / 4;

  Graph g;
  const Placed placed(g);
  const Output one = placeholder(g, DType::f32, {});  // or all of it is a constant
  const auto made = [&] { return placed.on(0, [&] { return fill(g, {n}, 1) * one; }); };
  const Output crosses = made(), stays = made();
  const Output read_there = placed.on(1, [&] { return reduce_sum(crosses); });
  const Output read_here = placed.on(0, [&] { return reduce_sum(stays); });
  const Output scalar_crosses = placed.on(1, [&] { return read_here * one; });
  Output hop = placed.on(0, [&] { return one + one; });
  for (int i = 1; i <= kHops; ++i) hop = placed.on(i % 2, [&] { return hop + one; });

  Nodes nodes("worker", 2);
  Session session =
      Session::connect(g, nodes.addresses(),
                       {.process = {.threads = 1}, .cluster = "bench", .wait_for = nodes.names()});
  struct Way {
    Callable call;
    float wanted;
    std::vector<double> us = {};
  };
  Way ways[] = {{session.prepare({read_there}, {one}), static_cast<float>(n)},
                {session.prepare({scalar_crosses}, {one}), static_cast<float>(n)},
                {session.prepare({hop}, {one}), kHops + 2}};
  for (int64_t i = 0; i < kUntimed + rounds; ++i)
    for (Way& way : ways) {
      const auto begin = std::chrono::steady_clock::now();
      const std::vector<Tensor> got = way.call({Tensor::scalar<float>(1)});
      if (i >= kUntimed) way.us.push_back(seconds_since(begin) * 1e6);
      if (got[0].item<float>() != way.wanted)
        throw InternalError("the sum is ", got[0].item<float>(), ", not ", way.wanted);
    }
  const auto say = [&](const char* metric, const char* statistic, double us) {
    report(options, "transfer", metric, us, "us",
           {{"mib", std::to_string(mib)},
            {"rounds", std::to_string(rounds)},
            {"statistic", detail::concat("\"", statistic, "\"")}});
  };
  std::vector<double> more;  // of calls that followed each other
  for (size_t i = 0; i < ways[0].us.size(); ++i) more.push_back(ways[0].us[i] - ways[1].us[i]);
  say("edge_of_scalar_us", "p50", quantile(ways[2].us, 0.5) / kHops);
  for (const auto& [name, p] : {std::pair{"p50", 0.5}, std::pair{"p99", 0.99}})
    say("size_costs_us", name, quantile(more, p));
  return 0;
}

}  // namespace troupe::bench
