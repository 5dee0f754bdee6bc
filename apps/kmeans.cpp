// kmeans: k-means clustering, several k-means++ starts at a time, points sharded over the workers.
//
// Each start is one call of the session: k-means++ and Lloyd's algorithm are loops of the graph,
// and only the centres move between the workers. The start with the smallest inertia (the sum of
// the squared distances to the nearest centre) wins.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "apps/program/run_all.hpp"
#include "apps/program/tables.hpp"
#include "troupe/ops.hpp"

using namespace troupe;

namespace {

constexpr int64_t kShards = 2;  // the same on one worker, so that the bits are the same, too

struct Options : ProgramOptions {
  int64_t k = 10, starts = 10, iterations = 300, at_once = 2;
  double tolerance = 1e-4;  // of the centres' squared movement, in mean variances of a column
};

// The points of one worker.
struct Shard {
  std::string device;
  Output x;       // f32 [n, columns]
  Output square;  // [n], the squared length of each point
};

Output sum_of(std::vector<Output> parts) {
  while (parts.size() > 1) {
    parts[parts.size() - 2] = parts[parts.size() - 2] + parts.back();
    parts.pop_back();
  }
  return parts[0];
}

// points of a shard, centres [k, columns] -> squared distances [n, k]. Rounding may leave one a
// little below 0.
Output distances(const Shard& shard, Output centres) {
  const Output lengths = reduce_sum(square(centres), {.axes = {1}});
  return bias_add(
      expand_dims(shard.square, 1) - matmul(shard.x, centres, {.transpose_b = true}) * 2.0,
      lengths);
}

// k-means++ (Arthur and Vassilvitskii 2007), greedy as in scikit-learn: of some candidates, which
// are drawn in proportion to their squared distance from the nearest centre, the one joins that
// leaves the least inertia; so does the first. A candidate has one of the greatest keys u^(1 /
// distance) over all shards, u uniform (Efraimidis and Spirakis 2006), so no shard needs the
// others' sums.
Output first_centres(Graph& graph, const std::vector<Shard>& shards, int64_t columns, int64_t seed,
                     const Options& given) {
  const int64_t trials = 2 + static_cast<int64_t>(std::log(static_cast<double>(given.k)));
  // Variables: the number of centres, the centres, and the distances of each shard's points.
  std::vector<Output> first = {fill(graph, {}, 0, DType::i64), fill(graph, {given.k, columns}, 0)};
  std::vector<Shape> shapes = {{}, {given.k, columns}};
  for (const Shard& shard : shards) {
    const auto scope = graph.scope({.device = shard.device});
    first.push_back(ones_like(shard.square));  // all may be the first centre
    shapes.push_back({shard.x.shape()[0]});
  }
  const auto more = [&](const std::vector<Output>& v) { return v[0] < given.k; };
  const auto choose = [&](const std::vector<Output>& v) {
    std::vector<Output> keys, points;
    for (size_t s = 0; s < shards.size(); ++s) {
      const auto scope = graph.scope({.device = shards[s].device});
      const Output u = random_uniform(graph, {shards[s].x.shape()[0]}, 1e-30, 1,
                                      seed * kShards + static_cast<int64_t>(s), DType::f32, "u");
      const TopK best = top_k(log(u) / v[2 + s], trials);
      keys.push_back(best.values);
      points.push_back(gather(shards[s].x, best.indices));
    }
    const Output candidates = gather(concat(points, 0), top_k(concat(keys, 0), trials).indices);
    std::vector<Output> left, inertia;  // with each candidate as the next centre
    for (size_t s = 0; s < shards.size(); ++s) {
      const auto scope = graph.scope({.device = shards[s].device});
      const Output nearest = expand_dims(where(v[0] == 0, fill(graph, {}, INFINITY), v[2 + s]), 1);
      const Output with = minimum(relu(distances(shards[s], candidates)), nearest);  // [n, trials]
      left.push_back(with);
      inertia.push_back(reduce_sum(with, {.axes = {0}}));
    }
    const Output best = argmin(sum_of(inertia));
    const Output centre = gather(candidates, expand_dims(best, 0));
    const Output here =
        cast(range(graph, 0, static_cast<double>(given.k), 1, DType::i64) == v[0], DType::f32);
    std::vector<Output> next = {v[0] + 1, v[1] + matmul(expand_dims(here, 1), centre)};
    for (size_t s = 0; s < shards.size(); ++s) {
      const auto scope = graph.scope({.device = shards[s].device});
      next.push_back(squeeze(gather(left[s], expand_dims(best, 0), 1), {1}));
    }
    return next;
  };
  return while_loop(more, choose, first, {.shapes = shapes, .name = "choose"})[1];
}

struct Start {
  Output centres, inertia, iterations;
};

// Lloyd's algorithm (1982) from those centres. An empty cluster keeps its centre.
Start lloyd(Graph& graph, const std::vector<Shard>& shards, Output centres, double limit,
            const Options& given) {
  const auto goes_on = [&](const std::vector<Output>& v) {
    return logical_and(less(v[1], given.iterations), greater(v[2], limit));
  };
  const auto assign = [&](const std::vector<Output>& v) {
    std::vector<Output> sums, counts;
    for (const Shard& shard : shards) {
      const auto scope = graph.scope({.device = shard.device});
      const Output nearest = argmin(distances(shard, v[0]));
      sums.push_back(unsorted_segment_sum(shard.x, nearest, given.k));
      counts.push_back(cast(bincount(nearest, given.k), DType::f32));
    }
    const Output count = expand_dims(sum_of(counts), 1);
    const Output moved = where(count > 0, sum_of(sums) / maximum(count, 1), v[0]);
    return std::vector<Output>{moved, v[1] + 1, reduce_sum(square(moved - v[0]))};
  };
  const auto end = while_loop(goes_on, assign,
                              {centres, fill(graph, {}, 0, DType::i64), fill(graph, {}, INFINITY)},
                              {.name = "lloyd"});
  std::vector<Output> inertia;
  for (const Shard& shard : shards) {
    const auto scope = graph.scope({.device = shard.device});
    const Output nearest = argmin(distances(shard, end[0]));
    const Output squares = reduce_sum(square(shard.x - gather(end[0], nearest)), {.axes = {1}});
    inertia.push_back(reduce_sum(cast(squares, DType::f64)));
  }
  return {end[0], sum_of(inertia), end[1]};
}

std::string centres_csv(const Tensor& centres, const Standardizer& columns) {
  std::string out;
  for (int64_t k = 0; k < centres.dim(0); ++k)
    for (int64_t j = 0; j < centres.dim(1); ++j)
      out += detail::concat(
          j ? "," : "",
          centres.data<float>()[k * centres.dim(1) + j] + columns.mean()[static_cast<size_t>(j)],
          j + 1 == centres.dim(1) ? "\n" : "");
  return out;
}

int run(const Options& given) {
  if (given.starts < 1 || given.at_once < 1 || given.iterations < 1 || !(given.tolerance >= 0))
    throw Error(Errc::invalid_argument,
                "--starts, --at-once and --iterations want at least 1, --tolerance 0 or more");
  Table table = load_table(given.data, DType::f32);
  const int64_t n = table.all.size(), columns = table.all.features.dim(1);
  if (given.k < 1 || given.k > n / kShards)
    throw Error(Errc::invalid_argument, "--k wants 1 to ", n / kShards, " for ", n, " points, got ",
                given.k);
  const Cluster cluster = given.where();
  const OutFolder out(given.out, false);
  const LogSink say = given.say();

  // Around the mean, squared lengths are small, and so are the rounding errors of their
  // differences.
  const Standardizer scale(table.all.features);
  double variance = 0;
  for (const double d : scale.deviation()) variance += d * d / static_cast<double>(columns);
  Tensor centred = Tensor::empty(DType::f32, {n, columns});
  for (int64_t i = 0; i < n * columns; ++i)
    centred.mutable_data<float>()[i] = static_cast<float>(
        table.all.features.data<float>()[i] - scale.mean()[static_cast<size_t>(i % columns)]);

  Graph graph(given.process().ops);
  std::vector<Shard> shards;
  for (int64_t s = 0; s < kShards; ++s) {
    const std::string device = cluster.device(s);
    const auto scope = graph.scope({.name = detail::concat("shard", s), .device = device});
    const Output x = constant(graph, every({centred, table.all.labels}, s, kShards).features);
    shards.push_back({device, x, reduce_sum(square(x), {.axes = {1}})});
  }
  std::vector<Start> starts;
  for (int64_t i = 0; i < given.starts; ++i) {
    const auto scope =
        graph.scope({.name = detail::concat("start", i), .device = cluster.device(0)});
    const Output centres =
        first_centres(graph, shards, columns, given.seed * given.starts + i, given);
    starts.push_back(lloyd(graph, shards, centres, given.tolerance * variance, given));
  }
  std::printf("data: %s, %lld points of %lld columns; %lld clusters, %lld starts\n",
              table.name.c_str(), static_cast<long long>(n), static_cast<long long>(columns),
              static_cast<long long>(given.k), static_cast<long long>(given.starts));
  Session session = cluster.open(graph, given.process());
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Call> calls;
  for (const Start& s : starts)
    calls.push_back({session.prepare({s.centres, s.inertia, s.iterations})});
  std::vector<std::vector<Tensor>> results;
  ProgressLine line("kmeans");
  run_all(calls, given.at_once, line, "starts",
          [&](size_t, std::vector<Tensor> values) { results.push_back(std::move(values)); });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  Plot plot{"Inertia of each start", "start", "inertia"};
  size_t best = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const double inertia = results[i][1].item<double>();
    plot.add("inertia", static_cast<double>(i), inertia);
    std::printf("start %zu: inertia %.6g after %lld iterations\n", i, inertia,
                static_cast<long long>(results[i][2].item<int64_t>()));
    if (inertia < results[best][1].item<double>()) best = i;
  }
  plot.series[0].dots = true;
  std::printf("best: start %zu, inertia %.9g, %.3f s for all starts\n", best,
              results[best][1].item<double>(), seconds);
  std::printf("centres: %s\ncurve: %s\n",
              write_extra(out / "centres.csv", centres_csv(results[best][0], scale), say).c_str(),
              write_plot(out, "curve", plot, say).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "kmeans", given.out = "out/kmeans";
  return run_program(
      given, "k-means clustering of a table", argc, argv,
      [&](Flags& flags) {
        flags.add("k", &given.k, "clusters");
        flags.add("starts", &given.starts, "of which the best is taken");
        flags.add("at-once", &given.at_once, "starts that run at the same time");
        flags.add("iterations", &given.iterations, "of a start, at most");
        flags.add(
            "tolerance", &given.tolerance,
            "squared movement of all centres, in mean variances of a column, that ends a start");
        add_common_flags(flags, given,
                         {.data = "table as CSV whose last column is not a feature, or a folder "
                                  "with MNIST (default: the digits that ship)",
                          .seed = "for the first centres"});
      },
      [&] { return run(given); });
}
