// remote, push_pull, footprint: the cost of other processes.
#include <unistd.h>

#include <fstream>
#include <thread>

#include "bench/bench.hpp"
#include "bench/loopback.hpp"
#include "bench/nodes.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"

namespace troupe::bench {
namespace {

ConnectOptions connect_options(const Nodes& nodes, int shards) {
  ConnectOptions c;
  c.cluster = "bench";
  c.wait_for = nodes.names();
  c.process.threads = 1;
  c.process.parameter_shards = shards;
  return c;
}

double rss_mib(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/statm");
  int64_t total = 0, resident = 0;
  in >> total >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double cpu_seconds(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skip;
  for (int i = 0; i < 11; ++i) fields >> skip;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

int remote(const Options& options) {
  const auto shards = static_cast<int>(options.integer("shards", 16));
  const auto processes = static_cast<int>(options.integer("processes", 2));
  if (shards < 1 || processes < 1)
    throw Error(Errc::invalid_argument, "--shards and --processes want at least 1");
  Nodes nodes("ps", processes);
  Graph g;
  std::vector<Output> reads;
  for (int i = 0; i < shards; ++i)
    reads.push_back(parameter(detail::concat("scalar", i), fill(g, {}, i)));
  // Scalar s starts at s, and each push adds 1.
  std::vector<Output> pushes;
  for (const Output& read : reads) pushes.push_back(push_gradient(read, fill(g, {}, -1), sgd(1)));
  Session session = Session::connect(g, nodes.addresses(), connect_options(nodes, shards));
  Callable fetch = session.prepare(reads);
  const auto measure = [&](const std::string& metric, bool unchanged, auto&& before_fetch) {
    std::vector<double> times;
    for (int i = 0; i < 2200; ++i) {
      const float added = before_fetch();
      const auto begin = std::chrono::steady_clock::now();
      const std::vector<Tensor> got = fetch();
      if (i >= 200) times.push_back(seconds_since(begin) * 1e6);
      for (int s = 0; s < shards; ++s)
        if (const float value = got[static_cast<size_t>(s)].item<float>();
            value != static_cast<float>(s) + added)
          throw InternalError("scalar ", s, " came back as ", value, " after ", added, " pushes");
    }
    for (const auto& [name, p] : {std::pair{"p50", 0.5}, std::pair{"p99", 0.99}})
      report(options, "remote", metric, quantile(times, p), "us",
             {{"shards", std::to_string(shards)},
              {"processes", std::to_string(processes)},
              {"unchanged", unchanged ? "true" : "false"},
              {"statistic", std::string("\"") + name + "\""}});
  };
  // For a value that has not changed since the last fetch, the shard's answer carries no value.
  measure("null_step_us", true, [] { return 0.0f; });
  Callable push = session.prepare({group(g, pushes)});
  measure("null_step_changed_us", false, [&, pushed = 0.0f]() mutable {
    push();
    return ++pushed;
  });
  return 0;
}

int push_pull(const Options& options) {
  const int64_t mib = options.integer("mib", 16);
  if (mib < 1 || mib > 1024)
    throw Error(Errc::invalid_argument, "--mib wants 1 to 1024, got ", mib);
  Nodes nodes("ps", 1);
  const int64_t n = (mib << 20) / 4;
  const int rounds = static_cast<int>(std::max<int64_t>(4, 256 / mib));
  Graph g;
  Output w = parameter("w", fill(g, {n}, 1));
  Output push = push_gradient(w, w * 0.5, sgd(0.01));
  Session session = Session::connect(g, nodes.addresses(), connect_options(nodes, 1));
  Callable step = session.prepare({push});
  for (int i = 0; i < 3; ++i) step();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) step();
  const double ours = 2.0 * static_cast<double>(n * 4) * rounds / seconds_since(begin) / 1e9;
  const double raw = raw_bytes_per_second(n * 4, 2 * rounds) / 1e9;
  const std::vector<std::pair<std::string, std::string>> config = {
      {"mib", std::to_string(mib)}, {"rounds", std::to_string(rounds)}};
  report(options, "push_pull", "gb_per_s", ours, "GB/s", config);
  report(options, "push_pull", "raw_gb_per_s", raw, "GB/s", config);
  return 0;
}

int footprint(const Options& options) {
  const int64_t seconds = options.integer("seconds", 5);
  if (seconds < 1) throw Error(Errc::invalid_argument, "--seconds wants at least 1, got ", seconds);
  Nodes nodes("worker", 5);
  Graph g;
  {
    Session together = Session::connect(g, nodes.addresses(), connect_options(nodes, 0));
  }  // after this, all five have joined
  const double before = cpu_seconds(nodes.pid(2));
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  report(options, "footprint", "idle_rss_mib", rss_mib(nodes.pid(2)), "MiB",
         {{"nodes", "5"}, {"threads", "1"}});
  report(options, "footprint", "idle_cpu_percent",
         100 * (cpu_seconds(nodes.pid(2)) - before) / seconds_since(begin), "%",
         {{"nodes", "5"}, {"threads", "1"}, {"seconds", std::to_string(seconds)}});
  return 0;
}

}  // namespace troupe::bench
