// regression: logistic regression of a table, or of lines of text.
//
// It finds the optimum for a table, as closely as f64 allows; from two files of text it learns
// which one a line is from (apps/regression/lines.cpp).
//
// The objective of a table is that of scikit-learn, divided by the number of records:
//   mean of -log p(label | x) + |w|^2 / (2 C n),  p = softmax(x w + b), or the sigmoid for two
// classes. Each of two towers has half of the records and pushes the gradient of their part; the
// shards take the mean, so a step is one of the whole objective by Nesterov's method.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "apps/program/tables.hpp"
#include "apps/regression/lines.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

using namespace troupe;

namespace {

constexpr int64_t kTowers = 2, kLookEvery = 50;  // steps

struct Options : ProgramOptions {
  std::vector<std::string> text;
  double c = 1, tolerance = 1e-7;
  int64_t steps = 5000;
  LineOptions lines;
};

// The largest eigenvalue of x' x / n, by the power method: the curvature of the steepest direction.
double steepest(const Tensor& x) {
  Graph graph;
  const Output records = constant(graph, x);
  const Output gram = matmul(records, records, {.transpose_a = true});
  Output v = random_normal(graph, {x.dim(1), 1}, 0, 1, 1, DType::f64);  // has a part of each vector
  for (int i = 0; i < 30; ++i) v = l2_normalize(matmul(gram, v), {0});
  Session session = Session::local(graph);
  return session.run({norm(matmul(gram, v))})[0].item<double>() / static_cast<double>(x.dim(0));
}

struct Model {
  std::vector<Tower> towers;
  Output objective, slope;         // of all records; the slope is the largest |gradient|
  Output x, labels, scores, loss;  // of records that are fed
};

// logits [n, classes], or [n, 1] for two classes -> the loss of each record
Output losses_of(Output logits, Output labels) {
  if (logits.shape()[1] > 1) return softmax_cross_entropy(logits, labels);
  return sigmoid_cross_entropy(squeeze(logits, {1}), cast(labels, DType::f64));
}

Model build(Graph& graph, const Cluster& cluster, const Dataset& data, int64_t outputs,
            const Options& given) {
  const int64_t columns = data.features.dim(1);
  const auto n = static_cast<double>(data.size());
  const double decay = 1 / (given.c * n);
  // The Hessian is at most this: a quarter, or half for softmax, of x' x / n (Böhning 1992).
  const double most =
      (outputs == 1 ? 0.25 : 0.5) * 1.05 * std::max(1.0, steepest(data.features)) + decay;
  const double root = std::sqrt(decay / most);
  const Optimizer optimizer = nesterov(1 / most, (1 - root) / (1 + root));
  const auto logits_of = [&](Output x) {
    const Output w = parameter("w", fill(graph, {columns, outputs}, 0, DType::f64));
    return bias_add(matmul(x, w), parameter("b", fill(graph, {outputs}, 0, DType::f64)));
  };
  Model out;
  std::vector<Output> objectives;
  std::vector<std::vector<ParameterGradient>> slopes;
  for (int64_t i = 0; i < kTowers; ++i) {
    const auto scope = graph.scope(
        {.name = detail::concat("tower", i), .device = cluster.device(i), .replica = i});
    const Dataset part = every(data, i, kTowers);  // constants: they go to their worker once
    const Output loss = reduce_sum(
        losses_of(logits_of(constant(graph, part.features)), constant(graph, part.labels)));
    const Output w = parameter("w", fill(graph, {columns, outputs}, 0, DType::f64));
    const Output objective = check_finite(
        loss * (static_cast<double>(kTowers) / n) + l2_penalty({w}, decay), "the loss");
    slopes.push_back(parameter_gradients(objective));
    objectives.push_back(objective);
    out.towers.push_back({i, objective, apply_gradients(slopes.back(), optimizer)});
  }
  const auto scope = graph.scope({.name = "all"});
  out.objective = (objectives[0] + objectives[1]) / static_cast<double>(kTowers);
  for (size_t p = 0; p < slopes[0].size(); ++p) {
    const Output sum = slopes[0][p].gradient + slopes[1][p].gradient;
    const Output largest = reduce_max(abs(sum / static_cast<double>(kTowers)));
    out.slope = p == 0 ? largest : maximum(out.slope, largest);
  }
  out.x = placeholder(graph, DType::f64, {-1, columns});
  out.labels = placeholder(graph, DType::i64, {-1});
  const Output logits = logits_of(out.x);
  out.loss = reduce_mean(losses_of(logits, out.labels));
  out.scores = outputs == 1 ? cast(greater(squeeze(logits, {1}), zeros_like(squeeze(logits, {1}))),
                                   DType::i64)
                            : argmax(logits);
  return out;
}

void print_scores(Session& session, const Model& model, const char* name, const Dataset& data) {
  const auto got = session.run({model.scores, model.loss},
                               {{model.x, data.features}, {model.labels, data.labels}});
  Accuracy accuracy;
  accuracy.add(got[0], data.labels);
  std::printf("%s: %lld records, log loss %.6f, accuracy %.2f %%\n", name,
              static_cast<long long>(data.size()), got[1].item<double>(), 100 * accuracy.value());
}

// A line for each feature: the coefficients of the standardized columns, one for each output; the
// line of the intercepts is the last.
std::string coefficients_csv(const Tensor& w, const Tensor& b) {
  std::string out = "feature";
  for (int64_t k = 0; k < w.dim(1); ++k) out += detail::concat(",output", k);
  const auto line = [&](const std::string& name, const double* values) {
    out += "\n" + name;
    for (int64_t k = 0; k < w.dim(1); ++k) out += detail::concat(",", values[k]);
  };
  for (int64_t j = 0; j < w.dim(0); ++j) line(std::to_string(j), w.data<double>() + j * w.dim(1));
  line("intercept", b.data<double>());
  return out + "\n";
}

int run_table(const Options& given) {
  if (!(given.c > 0 && std::isfinite(given.c)))
    throw Error(Errc::invalid_argument, "--c wants a number above 0, got ", given.c);
  if (given.steps < 1)
    throw Error(Errc::invalid_argument, "--steps wants at least 1, got ", given.steps);
  const Table table = load_table(given.data);
  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);
  const LogSink say = given.say();

  const Standardizer scaled(table.train.features);
  const Dataset train = {scaled(table.train.features, DType::f64), table.train.labels};
  const Dataset test = {scaled(table.test.features, DType::f64), table.test.labels};
  const int64_t outputs = table.classes == 2 ? 1 : table.classes;
  std::printf("data: %s, %lld records of %lld columns, %lld classes\n", table.name.c_str(),
              static_cast<long long>(train.size()), static_cast<long long>(train.features.dim(1)),
              static_cast<long long>(table.classes));

  Graph graph(given.process().ops);
  const Model model = build(graph, cluster, train, outputs, given);
  Session session = cluster.open(graph, given.process());
  Plot curve{"Logistic regression", "step", "log10"};
  TrainOptions options;
  options.steps = given.steps;
  options.examples_per_step = train.size() / kTowers;
  options.pause_every = kLookEvery;
  options.on_pause = [&](const TrainPause& pause) {
    const auto now = session.run({model.objective, model.slope});
    const auto step = static_cast<double>(pause.step);
    curve.add("largest gradient", step, std::log10(now[1].item<double>()));
    curve.add("objective", step, std::log10(now[0].item<double>()));
    return now[1].item<double>() >= given.tolerance;
  };
  const Trained trained =
      train_in_sight(session, model.towers, options, given, out, "sync", &curve);
  after_training(session, trained.options, [&] {
    const auto now = session.run({model.objective, model.slope});
    const double slope = now[1].item<double>();
    std::printf("objective %.9f, largest gradient %.2e%s\n", now[0].item<double>(), slope,
                slope < given.tolerance ? "" : ": not yet the optimum; give it more --steps");
    print_scores(session, model, "training", train);
    print_scores(session, model, "test", test);
    auto values = parameter_values(session);
    std::printf("coefficients: %s\n", write_extra(out / "coefficients.csv",
                                                  coefficients_csv(values["w"], values["b"]), say)
                                          .c_str());
  });
  std::printf("curve: %s\n", write_plot(out, "curve", curve, say).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "regression", given.out = "out/regression";
  return run_program(
      given, "logistic regression of a table, or of lines of text", argc, argv,
      [&](Flags& flags) {
        flags.add("c", &given.c, "inverse strength of the penalty, as scikit-learn's C");
        flags.add("steps", &given.steps, "at most, on a table");
        flags.add("tolerance", &given.tolerance, "largest gradient at the optimum");
        flags.add("text", &given.text,
                  "file of text, plain or .gz; given twice: learns which one a line is from");
        add_line_flags(flags, given.lines);
        add_common_flags(
            flags, given,
            {.data = "table as CSV whose last column is a class, or a folder with MNIST (default: "
                     "the digits that ship)",
             .seed = "for the order of lines",
             .resume = "go on from the newest checkpoint in --out"});
      },
      [&] {
        return given.text.empty() ? run_table(given) : run_lines(given, given.text, given.lines);
      });
}
