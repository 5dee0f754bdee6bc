// transfer: a network that knows the digits 0 to 4 learns 5 to 9 from ten examples of each.
//
// Four trainings: the old digits; a new head on the old features, which stay as they are; all
// layers from there on; and, to compare, the same network anew on the few examples alone. Old and
// new heads are in one graph and share the parameters of the body.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "apps/program/tables.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

using namespace troupe;

namespace {

constexpr int64_t kTowers = 2, kDigits = 5, kLooks = 10;  // looks at the test digits in a training

struct Options : ProgramOptions {
  int64_t examples = 10, steps = 600, new_steps = 200, batch = 32;
};

struct Digits {
  Dataset old_train, old_test;  // 0 to 4
  Dataset few, new_test;        // 5 to 9 as 0 to 4; `few` has the same number of each
  int64_t side = 0;
};

// The records with labels in [first, first + kDigits), as images in [0, 1] and labels from 0 on; at
// most `each` of each label, in the order of `order`.
Dataset digits_of(const Dataset& data, int64_t side, double scale, int64_t first, int64_t each,
                  const std::vector<int64_t>& order) {
  std::vector<int64_t> rows, count(kDigits);
  for (const int64_t i : order) {
    const int64_t label = data.labels.data<int64_t>()[i] - first;
    if (label >= 0 && label < kDigits && count[static_cast<size_t>(label)]++ < each)
      rows.push_back(i);
  }
  const auto n = static_cast<int64_t>(rows.size()), columns = side * side;
  Dataset out{Tensor::empty(DType::f32, {n, side, side, 1}), Tensor::empty(DType::i64, {n})};
  for (int64_t i = 0; i < n; ++i) {
    const float* const x = data.features.data<float>() + rows[static_cast<size_t>(i)] * columns;
    for (int64_t j = 0; j < columns; ++j)
      out.features.mutable_data<float>()[i * columns + j] = static_cast<float>(x[j] / scale);
    out.labels.mutable_data<int64_t>()[i] =
        data.labels.data<int64_t>()[rows[static_cast<size_t>(i)]] - first;
  }
  return out;
}

Digits load(const Options& given) {
  const Table table = load_table(given.data);
  const int64_t columns = table.train.features.dim(1);
  Digits out;
  out.side = std::llround(std::sqrt(static_cast<double>(columns)));
  if (out.side * out.side != columns || out.side < 4 || table.classes != 2 * kDigits)
    throw Error(Errc::bad_data, table.name, " has ", columns, " columns and ", table.classes,
                " classes; wanted are square images, and the classes 0 to ", 2 * kDigits - 1);
  double scale = 0;
  for (const float x : table.train.features.values<float>()) scale = std::max<double>(scale, x);
  if (!(scale > 0)) throw Error(Errc::bad_data, table.name, ": no pixel is above 0");
  std::vector<int64_t> train(static_cast<size_t>(table.train.size())),
      test(static_cast<size_t>(table.test.size()));
  for (size_t i = 0; i < train.size(); ++i) train[i] = static_cast<int64_t>(i);
  for (size_t i = 0; i < test.size(); ++i) test[i] = static_cast<int64_t>(i);
  constexpr int64_t kAll = int64_t{1} << 40;
  out.old_train = digits_of(table.train, out.side, scale, 0, kAll, train);
  out.old_test = digits_of(table.test, out.side, scale, 0, kAll, test);
  std::mt19937_64 bits(static_cast<uint64_t>(given.seed));
  for (size_t i = train.size(); i > 1; --i) std::swap(train[i - 1], train[bits() % i]);
  out.few = digits_of(table.train, out.side, scale, kDigits, given.examples, train);
  out.new_test = digits_of(table.test, out.side, scale, kDigits, kAll, test);
  if (out.few.size() != kDigits * given.examples || out.old_test.size() == 0 ||
      out.new_test.size() == 0)
    throw Error(Errc::bad_data, table.name, " has too few digits: ", out.few.size(), " of ",
                kDigits * given.examples, " examples to learn from");
  return out;
}

// images [n, side, side, 1] -> features [n, ...]. It has convolutions alone: a dense layer behind
// them would learn what tells 0 to 4 apart, and little of other digits.
Output body(nn::Model& model, Output images) {
  Output x = relu(nn::conv2d(model, images, 16, 3, {.name = "conv1"}));
  if (images.shape()[1] > 8) x = max_pool2d(x);
  x = max_pool2d(relu(nn::conv2d(model, x, 32, 3, {.name = "conv2"})));
  return nn::flatten(x);
}

// One training.
struct Task {
  std::string label;
  const Dataset* train;
  const Dataset* test;
  int64_t steps = 0;
  std::map<std::string, Tensor> start = {};  // values to begin with; other weights are random
  bool head_only = false;                    // the body stays as it is
};

struct Network {
  std::vector<Tower> towers;
  Output images, classes;  // to ask it
};

Network build(Graph& graph, const Cluster& cluster, const Options& given, const Task& task) {
  const int64_t side = task.train->features.dim(1);
  const Batches batches(*task.train,
                        {.batch_size = std::min(given.batch, task.train->size() / kTowers),
                         .replicas = kTowers,
                         .seed = static_cast<uint64_t>(given.seed)});
  for (const auto& [name, value] : task.start) parameter(name, constant(graph, value));
  const auto logits_of = [](nn::Model& model, Output images) {
    return nn::dense(model, body(model, images), kDigits, {.name = "head"});
  };
  Network net;
  for (int64_t i = 0; i < kTowers; ++i) {
    const auto at = graph.scope(
        {.name = detail::concat("tower", i), .device = cluster.device(i), .replica = i});
    nn::Model model(graph, {.training = true, .seed = given.seed});
    const Output images = placeholder(graph, DType::f32, {-1, side, side, 1}, "images");
    const Output labels = placeholder(graph, DType::i64, {-1}, "labels");
    const Output logits = logits_of(model, images);
    const Output loss =
        check_finite(reduce_mean(softmax_cross_entropy(logits, labels)), "the loss");
    const std::vector<Output> trained =
        task.head_only ? parameters_named(loss, {"head/*"}) : model.parameters();
    net.towers.push_back({i,
                          loss,
                          minimize(loss, adam(1e-3), trained),
                          {images, labels},
                          [batches, i](int64_t step) {
                            const Batch b = batches.at(step, i);
                            return std::vector<Tensor>{b.features, b.labels};
                          }});
  }
  const auto at = graph.scope({.name = "asked", .device = cluster.device(0)});
  nn::Model model(graph, {.seed = given.seed, .reuse = true});
  net.images = placeholder(graph, DType::f32, {-1, side, side, 1}, "images");
  net.classes = argmax(logits_of(model, net.images));
  return net;
}

struct Outcome {
  double percent = 0;  // of the test digits that get their label
  std::map<std::string, Tensor> weights;
};

Outcome train_task(const Task& task, const Cluster& cluster, const Options& given,
                   const OutFolder& out, Plot& curve) {
  Graph graph(given.process().ops);
  const Network net = build(graph, cluster, given, task);
  Session session = cluster.open(graph, given.process());
  const auto percent = [&] {
    const Evaluation asked{.feeds = {net.images},
                           .fetches = {net.classes},
                           .metrics = {accuracy(0)},
                           .batch_size = 1000};
    return 100 * evaluate(session, asked, *task.test).at("accuracy");
  };
  TrainOptions options;
  options.steps = task.steps;
  options.examples_per_step = given.batch;
  options.pause_every = std::max<int64_t>(1, task.steps / kLooks);
  options.on_pause = [&](const TrainPause& pause) {
    curve.add(task.label, static_cast<double>(pause.step) / static_cast<double>(task.steps),
              percent());
    return true;
  };
  const Trained trained =
      train_in_sight(session, net.towers, options, given, out, task.label, &curve);
  Outcome outcome;
  after_training(session, trained.options, [&] {
    outcome = {percent(), parameter_values(session)};
  });
  std::printf("%s: %.2f %% of %lld test digits\n", task.label.c_str(), outcome.percent,
              static_cast<long long>(task.test->size()));
  return outcome;
}

int run(const Options& given) {
  if (given.examples < 1 || given.steps < 1 || given.new_steps < 1 || given.batch < 1)
    throw Error(Errc::invalid_argument,
                "--examples, --steps, --new-steps and --batch want at least 1");
  const Digits digits = load(given);
  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);
  std::printf("data: %lld old digits, %lld new ones, images of %lld x %lld\n",
              static_cast<long long>(digits.old_train.size()),
              static_cast<long long>(digits.few.size()), static_cast<long long>(digits.side),
              static_cast<long long>(digits.side));
  Plot curve{"Digits 5 to 9 from few examples", "part of the training", "test accuracy, %"};
  const auto train = [&](const Task& task) { return train_task(task, cluster, given, out, curve); };
  Outcome old = train({"old", &digits.old_train, &digits.old_test, given.steps});
  std::erase_if(old.weights, [](const auto& w) { return w.first.rfind("head", 0) == 0; });
  const auto with = [&](const char* label, const std::map<std::string, Tensor>& start,
                        bool head_only) {
    return train({label, &digits.few, &digits.new_test, given.new_steps, start, head_only});
  };
  const Outcome frozen = with("frozen", old.weights, true);
  const Outcome tuned = with("tuned", frozen.weights, false);
  const Outcome anew = with("anew", {}, false);
  std::printf("frozen features: %+.2f points, fine-tuned: %+.2f points above training anew\n",
              frozen.percent - anew.percent, tuned.percent - anew.percent);
  std::printf("curve: %s\n", write_plot(out, "curve", curve, given.say()).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "transfer", given.out = "out/transfer";
  return run_program(
      given, "a network for the digits 0 to 4 learns 5 to 9 from a few examples", argc, argv,
      [&](Flags& flags) {
        flags.add("examples", &given.examples, "of each new digit");
        flags.add("steps", &given.steps, "on the old digits");
        flags.add("new-steps", &given.new_steps, "of each training on the new digits");
        flags.add("batch", &given.batch, "images of a tower in a step");
        add_common_flags(
            flags, given,
            {.data = "table as CSV of square images whose last column is a digit, or a "
                     "folder with MNIST (default: the digits that ship)",
             .seed = "for initial values, batches and the choice of examples",
             .resume = "go on from the newest checkpoints in --out"});
      },
      [&] { return run(given); });
}
