// Builds the loop of a block of moves, and adds up the moments.
#include "apps/bayes/chains.hpp"

#include <cmath>
#include <cstdio>

#include "apps/program/checkpoints.hpp"
#include "apps/program/run_all.hpp"
#include "troupe/ops.hpp"

using namespace troupe;

namespace {

constexpr int64_t kGroups = 2;      // of chains; their number is the same on any cluster
constexpr int64_t kSaveEvery = 10;  // blocks

struct Group {
  Output keep;    // f64 scalar, fed: 1 if the block's samples count, 0 while chains burn in
  Output update;  // runs the block
};

Output scalar(Graph& graph, double value) { return fill(graph, {}, value, DType::f64); }

// All chains of a group are the columns of z [d, chains].
Group build_group(Graph& graph, const Regression& r, const Laplace& basis, const ChainOptions& o,
                  int64_t number, int64_t seed) {
  const int64_t d = r.d(), n = r.n();
  const Output t = constant(graph, basis.t), a = matmul(constant(graph, r.x), t);  // x w = a z
  const Output y = constant(graph, r.y);
  const auto random = [&](Output like, int64_t stream) {
    return random_normal(graph, like.shape(), 0, 1, seed * 8 + stream, DType::f64, "move");
  };
  // The gradient of the log density at z; from some records only, it is right on average.
  const auto slope = [&](Output z, Output rows, Output labels, double scale) {
    const Output from_data =
        matmul(rows, residuals(r, matmul(rows, z), labels), {.transpose_a = true});
    return from_data * scale - matmul(t, matmul(t, z), {.transpose_a = true}) * r.precision;
  };
  const auto density = [&](Output z) {  // logarithm, [chains]
    return -misfit(r, matmul(a, z), y) -
           reduce_sum(square(matmul(t, z)), {.axes = {0}}) * (r.precision / 2);
  };
  const auto exact_move = [&](Output z, Output noise) {
    const Output forth = z + slope(z, a, y, 1) * (o.step / 2) + noise * std::sqrt(o.step);
    const Output back = z - forth - slope(forth, a, y, 1) * (o.step / 2);
    const Output gain = density(forth) - density(z) +
                        reduce_sum(square(noise), {.axes = {0}}) / 2.0 -
                        reduce_sum(square(back), {.axes = {0}}) / (2 * o.step);
    const Output u = random_uniform(graph, {o.chains}, 1e-300, 1, seed * 8 + 2, DType::f64, "u");
    const Output taken = less(log(u), gain);
    return std::vector<Output>{where(taken, forth, z), reduce_mean(cast(taken, DType::f64))};
  };
  const auto stochastic_move = [&](Output z, Output noise) {
    const Output some = random_int(graph, {o.records}, 0, n, seed * 8 + 3, DType::i64, "records");
    const double scale = static_cast<double>(n) / static_cast<double>(o.records);
    const Output g = slope(z, gather(a, some), gather(y, some), scale);
    return std::vector<Output>{z + g * (o.step / 2) + noise * std::sqrt(o.step), scalar(graph, 1)};
  };
  const auto more = [&](const std::vector<Output>& v) {
    return less(v[0], fill(graph, {}, static_cast<double>(o.iterations), DType::i64));
  };
  const auto move = [&](const std::vector<Output>& v) {
    const Output noise = random(v[1], 1);
    const auto next = o.exact ? exact_move(v[1], noise) : stochastic_move(v[1], noise);
    const Output w = matmul(t, next[0]);
    return std::vector<Output>{v[0] + fill(graph, {}, 1, DType::i64), next[0],
                               v[2] + reduce_sum(w, {.axes = {1}}),
                               v[3] + reduce_sum(square(w), {.axes = {1}}), v[4] + next[1]};
  };
  const std::string name = detail::concat("chains", number, "/");
  const Output z =
      parameter(name + "z", broadcast_to(constant(graph, basis.z), {d, o.chains}));  // the mode
  const Output sum = parameter(name + "sum", fill(graph, {d}, 0, DType::f64));
  const Output squares = parameter(name + "squares", fill(graph, {d}, 0, DType::f64));
  const Output taken = parameter(name + "taken", scalar(graph, 0));
  const Output kept = parameter(name + "kept", scalar(graph, 0));  // blocks
  const Output none = fill(graph, {d}, 0, DType::f64);
  const auto end =
      while_loop(more, move, {fill(graph, {}, 0, DType::i64), z, none, none, scalar(graph, 0)},
                 {.name = "moves"});
  Group out;
  out.keep = placeholder(graph, DType::f64, {}, "keep");
  out.update = group(graph, {assign(z, end[1]), assign_add(sum, end[2] * out.keep),
                             assign_add(squares, end[3] * out.keep),
                             assign_add(taken, end[4] * out.keep), assign_add(kept, out.keep)});
  return out;
}

}  // namespace

WeightMoments run_chains(const Regression& r, const Laplace& basis, const ChainOptions& o,
                         const ProgramOptions& given, const Cluster& cluster, const OutFolder& out,
                         const std::string& label) {
  Graph graph(given.process().ops);
  std::vector<Output> updates;
  std::vector<Output> keeps;
  for (int64_t i = 0; i < kGroups; ++i) {
    const auto scope =
        graph.scope({.name = detail::concat(label, i), .device = cluster.device(i), .replica = i});
    const Group g = build_group(graph, r, basis, o, i, given.seed * kGroups + i);
    updates.push_back(g.update), keeps.push_back(g.keep);
  }
  const Counter blocks = counter(graph, "blocks");
  updates.push_back(blocks.update);
  Session session = cluster.open(graph, given.process());
  const std::string checkpoints = (out / ("checkpoint-" + label)).string();
  if (given.resume && has_checkpoint(checkpoints))
    load_parameters(session, checkpoints);
  else
    remove_checkpoints(checkpoints, label);
  ProgressLine line(label);
  const int64_t all = o.burn_in + o.blocks;
  const auto done = [&] { return session.run({blocks.value})[0].item<int64_t>(); };
  const Callable block = session.prepare(updates, keeps);
  for (int64_t i = done(); i < all; ++i) {
    const Tensor keep = Tensor::scalar<double>(i >= o.burn_in ? 1 : 0);
    block({keep, keep}, {.timeout = kWorkTimeout});
    line.show("blocks", i + 1, all);
    if ((i + 1) % kSaveEvery == 0 || i + 1 == all) save_parameters(session, checkpoints);
  }
  line.end();
  const auto values = parameter_values(session);
  const double kept = values.at("chains0/kept").item<double>();
  const double moves = static_cast<double>(kGroups * o.iterations) * kept;
  WeightMoments moments;
  moments.accepted = 0;
  for (int64_t j = 0; j < r.d(); ++j) {
    double sum = 0, squares = 0;
    for (int64_t g = 0; g < kGroups; ++g) {
      sum += values.at(detail::concat("chains", g, "/sum")).data<double>()[j];
      squares += values.at(detail::concat("chains", g, "/squares")).data<double>()[j];
    }
    const double samples = moves * static_cast<double>(o.chains), mean = sum / samples;
    moments.mean.push_back(mean);
    moments.deviation.push_back(std::sqrt(std::max(0.0, squares / samples - mean * mean)));
  }
  for (int64_t g = 0; g < kGroups; ++g)
    moments.accepted += values.at(detail::concat("chains", g, "/taken")).item<double>() / moves;
  return moments;
}
