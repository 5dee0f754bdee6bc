// forest: a random forest of a table, with histogram splits and trees over the workers.
//
// The columns become bins of u8 once. Each tree is one call of the session: an op of this program
// grows it on a worker, from a bootstrap sample of the training records that the worker holds, and
// another one classifies the test records; the votes alone come back. On a cluster its processes
// need the ops, too: actor-node up --plugin build/forest_ops.so build/forest
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "apps/forest/trees.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "apps/program/run_all.hpp"
#include "apps/program/tables.hpp"
#include "troupe/ops.hpp"

using namespace troupe;

namespace {

constexpr int64_t kBins = 256, kSample = 10'000;  // records that choose the borders of bins
constexpr int kWorkersLeast = 2;  // so many trees grow at a time in one process, too

struct Options : ProgramOptions {
  int64_t trees = 100, tries = 0, leaf_min = 1, at_once = 0;
};

// The borders between the bins of one column: between neighbours if it has at most 256 different
// values, else quantiles. Border b has bins up to b on its left.
std::vector<float> borders_of(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  std::vector<float> distinct = values, out;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const auto n = static_cast<int64_t>(distinct.size());
  if (n <= kBins)
    for (int64_t i = 1; i < n; ++i)
      out.push_back(
          std::midpoint(distinct[static_cast<size_t>(i - 1)], distinct[static_cast<size_t>(i)]));
  else
    for (int64_t i = 1; i < kBins; ++i)
      out.push_back(values[values.size() * static_cast<size_t>(i) / static_cast<size_t>(kBins)]);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<std::vector<float>> borders_of(const Tensor& x) {
  const int64_t n = x.dim(0), columns = x.dim(1), step = std::max<int64_t>(1, n / kSample);
  std::vector<std::vector<float>> out;
  for (int64_t j = 0; j < columns; ++j) {
    std::vector<float> values;
    for (int64_t i = 0; i < n; i += step) values.push_back(x.data<float>()[i * columns + j]);
    out.push_back(borders_of(std::move(values)));
  }
  return out;
}

// x [n, columns] -> u8 [n, columns], or [columns, n]
Tensor bins_of(const Tensor& x, const std::vector<std::vector<float>>& borders, bool transposed) {
  const int64_t n = x.dim(0), columns = x.dim(1);
  Tensor out = Tensor::empty(DType::u8, transposed ? Shape{columns, n} : Shape{n, columns});
  uint8_t* const y = out.mutable_data<uint8_t>();
  for (int64_t j = 0; j < columns; ++j) {
    const std::vector<float>& b = borders[static_cast<size_t>(j)];
    for (int64_t i = 0; i < n; ++i) {
      const auto bin =
          std::lower_bound(b.begin(), b.end(), x.data<float>()[i * columns + j]) - b.begin();
      y[transposed ? j * n + i : i * columns + j] = static_cast<uint8_t>(bin);
    }
  }
  return out;
}

// The process with the ops of trees, which a plugin may have brought.
ProcessOptions process_of(const ProgramOptions& given) {
  ProcessOptions out = given.process();
  if (out.ops->find("GrowTree")) return out;
  out.ops = ops_beside(*out.ops, tree_ops());
  return out;
}

double accuracy_of(const std::vector<double>& votes, const Dataset& test, int64_t classes) {
  int64_t right = 0;
  for (int64_t i = 0; i < test.size(); ++i) {
    const auto row = votes.begin() + i * classes;
    right += std::max_element(row, row + classes) - row == test.labels.data<int64_t>()[i];
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

std::string importance_csv(const std::vector<double>& gain) {
  const double sum = std::accumulate(gain.begin(), gain.end(), 0.0);
  std::string out = "feature,importance\n";
  for (size_t j = 0; j < gain.size(); ++j)
    out += detail::concat(j, ",", sum > 0 ? gain[j] / sum : 0, "\n");
  return out;
}

int run(const Options& given) {
  if (given.trees < 1 || given.tries < 0 || given.leaf_min < 1 || given.at_once < 0)
    throw Error(Errc::invalid_argument,
                "--trees and --leaf-min want at least 1, --tries and --at-once 0 or more");
  const Table table = load_table(given.data);
  const Cluster cluster = given.where();
  const OutFolder out(given.out, false);
  const LogSink say = given.say();
  const int64_t columns = table.train.features.dim(1), classes = table.classes;
  if (classes > 255)
    throw Error(Errc::bad_data, table.name, " has ", classes,
                " classes; a forest takes at most 255");
  TreeOptions tree;
  tree.classes = classes, tree.leaf_min = given.leaf_min;
  tree.tries = given.tries ? std::min(given.tries, columns)
                           : std::max<int64_t>(
                                 1, static_cast<int64_t>(std::sqrt(static_cast<double>(columns))));
  std::printf(
      "data: %s, %lld records of %lld columns, %lld classes; %lld trees, %lld features a node\n",
      table.name.c_str(), static_cast<long long>(table.train.size()),
      static_cast<long long>(columns), static_cast<long long>(classes),
      static_cast<long long>(given.trees), static_cast<long long>(tree.tries));
  const auto begin = std::chrono::steady_clock::now();
  const auto borders = borders_of(table.train.features);
  const Tensor bins = bins_of(table.train.features, borders, true);
  const Tensor test_bins = bins_of(table.test.features, borders, false);

  const ProcessOptions process = process_of(given);
  const int workers = std::max(cluster.workers, kWorkersLeast);
  Graph graph(process.ops);
  std::vector<Output> seeds;
  std::vector<std::vector<Output>> fetches;
  for (int64_t i = 0; i < workers; ++i) {
    const auto scope =
        graph.scope({.name = detail::concat("worker", i), .device = cluster.device(i)});
    seeds.push_back(placeholder(graph, DType::i64, {}, "seed"));
    const Tree grown =
        grow_tree(constant(graph, bins), constant(graph, table.train.labels), seeds.back(), tree);
    fetches.push_back(
        {apply_tree(constant(graph, test_bins), grown), grown.gain, shape_of(grown.feature)});
  }
  Session session = cluster.open(graph, process);
  std::vector<Callable> growers;
  for (size_t i = 0; i < fetches.size(); ++i)
    growers.push_back(session.prepare(fetches[i], {seeds[i]}));
  std::vector<Call> calls;
  for (int64_t t = 0; t < given.trees; ++t)
    calls.push_back({growers[static_cast<size_t>(t % workers)],
                     {Tensor::scalar<int64_t>(given.seed * 1'000'003 + t)}});

  std::vector<double> votes(static_cast<size_t>(table.test.size() * classes));
  std::vector<double> gain(static_cast<size_t>(columns));
  int64_t nodes = 0;
  Plot curve{"Random forest", "trees", "test accuracy"};
  ProgressLine line("forest");
  run_all(calls, given.at_once ? given.at_once : workers, line, "trees",
          [&](size_t t, std::vector<Tensor> values) {
            for (size_t i = 0; i < votes.size(); ++i) votes[i] += values[0].data<float>()[i];
            for (size_t j = 0; j < gain.size(); ++j) gain[j] += values[1].data<double>()[j];
            nodes += values[2].data<int64_t>()[0];
            curve.add("accuracy", static_cast<double>(t + 1),
                      accuracy_of(votes, table.test, classes));
          });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf(
      "%lld trees of %lld nodes on average in %.2f s\ntest: %lld records, accuracy %.2f %%\n",
      static_cast<long long>(given.trees), static_cast<long long>(nodes / given.trees), seconds,
      static_cast<long long>(table.test.size()), 100 * accuracy_of(votes, table.test, classes));
  std::printf("importance: %s\ncurve: %s\n",
              write_extra(out / "importance.csv", importance_csv(gain), say).c_str(),
              write_plot(out, "curve", curve, say).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "forest", given.out = "out/forest";
  return run_program(
      given, "a random forest of a table", argc, argv,
      [&](Flags& flags) {
        flags.add("trees", &given.trees, "of the forest");
        flags.add("tries", &given.tries,
                  "features that a node looks at; 0: the root of their number");
        flags.add("leaf-min", &given.leaf_min, "records in a leaf");
        flags.add("at-once", &given.at_once,
                  "trees that grow at the same time; 0: one a worker, and at least 2");
        add_common_flags(
            flags, given,
            {.data = "table as CSV whose last column is a class, or a folder with MNIST "
                     "(default: the digits that ship)",
             .seed = "for samples and features"});
      },
      [&] { return run(given); });
}
