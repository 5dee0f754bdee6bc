// collective [--mib M | --kib K] [--processes P]: an all-reduce over P processes, against the bytes
// that it must move through a plain loopback connection, and against the same sum and copies in the
// memory of one process.
#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/bench.hpp"
#include "bench/loopback.hpp"
#include "bench/nodes.hpp"
#include "troupe/error.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

constexpr int64_t kBytesMost = int64_t{256} << 20;
constexpr int kRounds = 15;

// All-reduces one after the other in one call, so that its begin and end count little.
class Chain {
 public:
  Chain(int processes, int64_t size, int length)
      : nodes_("worker", processes),
        length_(length),
        session_(Session::connect(
            graph_, nodes_.addresses(),
            {.process = {.threads = 1}, .cluster = "bench", .wait_for = nodes_.names()})) {
    const Output one = placeholder(graph_, DType::f32, {});  // or the whole chain is a constant
    nn::Parts parts;
    for (int r = 0; r < processes; ++r) {
      const auto scope = graph_.scope(
          {.device = detail::concat("/job:worker/task:", r, "/device:cpu:0"), .replica = r});
      parts.push_back(fill(graph_, {size}, r) * one);
    }
    for (int i = 0; i < length; ++i) parts = nn::all_reduce(parts, nn::Combine::mean);
    std::vector<Output> ends;
    for (int r = 0; r < processes; ++r) {
      const auto scope =
          graph_.scope({.device = graph_.node(parts[static_cast<size_t>(r)].node).device});
      ends.push_back(slice(parts[static_cast<size_t>(r)], {size - 1}, {1}));
    }
    call_ = session_.prepare(ends, {one});
    wanted_ = static_cast<float>(processes - 1) / 2;
  }

  // Seconds of one all-reduce.
  double run() {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<Tensor> ends = call_({Tensor::scalar<float>(1)});
    const double seconds = seconds_since(begin) / length_;
    for (const Tensor& end : ends)
      if (end.item<float>() != wanted_)
        throw InternalError("the mean is ", end.item<float>(), ", not ", wanted_);
    return seconds;
  }

 private:
  Nodes nodes_;
  const int length_;
  Graph graph_;
  Session session_;
  Callable call_;
  float wanted_ = 0;
};

// One thread sums `count` arrays and copies the sum to each.
class InMemory {
 public:
  InMemory(int count, int64_t size)
      : arrays_(static_cast<size_t>(count), std::vector<float>(static_cast<size_t>(size), 1)),
        sum_(static_cast<size_t>(size)) {}
  double run() {
    const auto begin = std::chrono::steady_clock::now();
    float* __restrict const sum = sum_.data();
    std::memcpy(sum, arrays_[0].data(), sum_.size() * sizeof(float));
    for (size_t r = 1; r < arrays_.size(); ++r) {
      const float* __restrict const one = arrays_[r].data();
      for (size_t i = 0; i < sum_.size(); ++i) sum[i] += one[i];
    }
    for (std::vector<float>& one : arrays_)
      std::memcpy(one.data(), sum, sum_.size() * sizeof(float));
    return seconds_since(begin);
  }

 private:
  std::vector<std::vector<float>> arrays_;
  std::vector<float> sum_;
};

}  // namespace

int collective(const Options& options) {
  const int64_t processes = options.integer("processes", 2);
  if (processes < 2 || processes > 64)
    throw Error(Errc::invalid_argument, "--processes wants 2 to 64, got ", processes);
  if (options.given("mib") && options.given("kib"))
    throw Error(Errc::invalid_argument, "give --mib or --kib");
  const int64_t bytes =
      options.given("kib") ? options.integer("kib", 0) << 10 : options.integer("mib", 1) << 20;
  if (bytes < 1 || bytes > kBytesMost)
    throw Error(Errc::invalid_argument, "wants 1 KiB to ", kBytesMost >> 20, " MiB");
  const int64_t size = bytes / 4;
  const auto count = static_cast<int>(processes);
  const int length = static_cast<int>(std::clamp<int64_t>((int64_t{16} << 20) / bytes, 4, 64));

  Chain chain(count, size, length);
  InMemory memory(count, size);
  chain.run();
  memory.run();
  std::vector<double> ours, wire, in_memory, of_wire, of_memory;
  for (int i = 0; i < kRounds; ++i) {
    ours.push_back(chain.run());
    // Each process sends its share of all others, and they send theirs.
    const double crossing = 2.0 * static_cast<double>((processes - 1) * bytes);
    wire.push_back(crossing / raw_bytes_per_second(bytes, 2 * length));
    in_memory.push_back(memory.run());
    of_wire.push_back(wire.back() / ours.back());
    of_memory.push_back(in_memory.back() / ours.back());
  }
  const std::vector<std::pair<std::string, std::string>> config = {
      {"kib", std::to_string(bytes >> 10)},
      {"processes", std::to_string(processes)},
      {"statistic", "\"median\""}};
  auto best = config;
  best.back().second = "\"minimum\"";
  report(options, "collective", "all_reduce_us", quantile(ours, 0.5) * 1e6, "us", config);
  report(options, "collective", "all_reduce_us_best", quantile(ours, 0) * 1e6, "us", best);
  report(options, "collective", "loopback_us", quantile(wire, 0.5) * 1e6, "us", config);
  report(options, "collective", "memory_us", quantile(in_memory, 0.5) * 1e6, "us", config);
  report(options, "collective", "of_loopback", quantile(of_wire, 0.5), "times", config);
  report(options, "collective", "of_memory", quantile(of_memory, 0.5), "times", config);
  return 0;
}

}  // namespace troupe::bench
