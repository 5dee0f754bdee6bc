// bayes: Bayesian linear and logistic regression, by variational inference and by Langevin chains.
//
// The posterior of the weights is found three times: by mean-field variational inference, by
// stochastic gradient Langevin dynamics (apps/bayes/chains.cpp), and as a reference, which is exact
// for linear regression and a chain with Metropolis's test for logistic regression. Means and
// deviations of all weights are compared.
//
// A mean-field family has no correlations, so it is used where there are hardly any: w = t z, with
// t from Laplace's approximation. For linear regression it then has the posterior itself.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "apps/bayes/chains.hpp"
#include "apps/program/checkpoints.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

using namespace troupe;

namespace {

constexpr int64_t kTowers = 2;

struct Options : ProgramOptions {
  std::string model = "linear";
  double precision = 1;
  int64_t steps = 4000, samples = 16, blocks = 40;
};

// q(z) is normal with independent elements: `middle`, and e^`spread` as deviations.
struct Variational {
  std::vector<double> middle, spread;
};

// Maximizes the evidence's lower bound by samples z = middle + e^spread * noise (Kingma and Welling
// 2014). Each tower has half of the records, and noise of its own.
Variational fit_variational(const Regression& r, const Laplace& basis, const Options& given,
                            const Cluster& cluster, const OutFolder& out, Plot& curve,
                            const std::string& work) {
  Graph graph(given.process().ops);
  const int64_t d = r.d();
  const auto n = static_cast<double>(r.n());
  std::vector<Tower> towers;
  for (int64_t i = 0; i < kTowers; ++i) {
    const auto scope = graph.scope(
        {.name = detail::concat("tower", i), .device = cluster.device(i), .replica = i});
    const Dataset part = every({r.x, r.y}, i, kTowers);
    const Output middle = parameter("middle", fill(graph, {d, 1}, 0, DType::f64));
    const Output spread = parameter("spread", fill(graph, {d, 1}, 0, DType::f64));
    const Output noise =
        random_normal(graph, {d, given.samples}, 0, 1, given.seed, DType::f64, "noise");
    const Output w =
        matmul(constant(graph, basis.t), middle + exp(spread) * noise);  // [d, samples]
    const Output data =
        misfit(r, matmul(constant(graph, part.features), w), constant(graph, part.labels));
    const Output prior = reduce_sum(square(w), {.axes = {0}}) * (r.precision / 2);
    const Output bound =
        reduce_mean(data * static_cast<double>(kTowers) + prior) - reduce_sum(spread);
    const Output loss = check_finite(bound / n, "the bound");
    const Optimizer optimizer = adam(0.05, 0.9, 0.99).with(cosine_decay(given.steps));
    towers.push_back({i, loss, minimize(loss, optimizer)});
  }
  Session session = cluster.open(graph, given.process());
  if (!given.resume) begin_work(out, work);
  TrainOptions options;
  options.steps = given.steps;
  options.examples_per_step = r.n() / kTowers;
  options.on_progress = [&](const TrainProgress& p) {
    if (p.step > 0) curve.add("negative bound / n", static_cast<double>(p.step), p.loss);
  };
  const Trained trained =
      train_in_sight(session, towers, options, given, out, "variational", &curve);
  Variational q;
  after_training(session, trained.options, [&] {
    auto values = parameter_values(session);
    for (const double v : values["middle"].values<double>()) q.middle.push_back(v);
    for (const double v : values["spread"].values<double>()) q.spread.push_back(std::exp(v));
  });
  return q;
}

// The moments of the weights w = t z.
WeightMoments moments_of(const Variational& q, const Laplace& basis) {
  WeightMoments out;
  const auto d = static_cast<int64_t>(q.middle.size());
  for (int64_t j = 0; j < d; ++j) {
    double mean = 0, variance = 0;
    for (int64_t k = 0; k < d; ++k) {
      const double t = basis.t.data<double>()[j * d + k];
      mean += t * q.middle[static_cast<size_t>(k)];
      variance += std::pow(t * q.spread[static_cast<size_t>(k)], 2);
    }
    out.mean.push_back(mean), out.deviation.push_back(std::sqrt(variance));
  }
  return out;
}

// How often the test records are as probable as the posterior says. Logistic: the share of label 1
// among records with a predicted probability, in ten bins. Linear: the share of records inside of
// the central intervals of nine probabilities.
Plot calibration(const Regression& r, const Variational& q, const Laplace& basis, int64_t seed) {
  Plot plot{"Calibration on test records", "predicted probability", "observed"};
  plot.add("ideal", 0, 0), plot.add("ideal", 1, 1);
  constexpr int kDraws = 200, kBins = 10;
  const int64_t n = r.test_x.dim(0), d = r.d();
  std::vector<double> sum(kBins), right(kBins), count(kBins);
  std::mt19937_64 bits(static_cast<uint64_t>(seed));
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < n; ++i) {
    const double* const x = r.test_x.data<double>() + i * d;
    double mean = 0, variance = 0;  // of x w
    for (int64_t k = 0; k < d; ++k) {
      double a = 0;
      for (int64_t j = 0; j < d; ++j) a += x[j] * basis.t.data<double>()[j * d + k];
      mean += a * q.middle[static_cast<size_t>(k)];
      variance += std::pow(a * q.spread[static_cast<size_t>(k)], 2);
    }
    const double y = r.test_y.data<double>()[i];
    if (r.logistic) {
      double p = 0;
      for (int s = 0; s < kDraws; ++s)
        p += 1 / (1 + std::exp(-(mean + std::sqrt(variance) * normal(bits)))) / kDraws;
      const auto bin = static_cast<size_t>(std::min(kBins - 1.0, p * kBins));
      sum[bin] += p, right[bin] += y, count[bin] += 1;
    } else {
      const double inside = std::erf(std::abs(y - mean) / std::sqrt(2 * (variance + r.noise)));
      for (size_t b = 0; b + 1 < kBins; ++b) {
        const double level = static_cast<double>(b + 1) / kBins;
        sum[b] += level, right[b] += inside <= level, count[b] += 1;
      }
    }
  }
  double error = 0;
  for (size_t b = 0; b < kBins; ++b) {
    if (count[b] == 0) continue;
    plot.add("observed", sum[b] / count[b], right[b] / count[b]);
    error += std::abs(sum[b] - right[b]) / (static_cast<double>(n) * (r.logistic ? 1 : kBins - 1));
  }
  plot.series.back().dots = true;
  std::printf("calibration error on %lld test records: %.4f\n", static_cast<long long>(n), error);
  return plot;
}

// The worst mean, in deviations, and the worst deviation, as a part of it.
void compare(const char* name, const WeightMoments& got, const WeightMoments& want) {
  double mean = 0, deviation = 0;
  for (size_t j = 0; j < want.mean.size(); ++j) {
    mean = std::max(mean, std::abs(got.mean[j] - want.mean[j]) / want.deviation[j]);
    deviation = std::max(deviation, std::abs(got.deviation[j] / want.deviation[j] - 1));
  }
  std::printf("%-12s means within %.3f deviations, deviations within %.2f %%\n", name, mean,
              100 * deviation);
}

std::string posterior_csv(const WeightMoments& reference, const WeightMoments& q,
                          const WeightMoments& chains) {
  std::string out =
      "weight,mean,deviation,variational_mean,variational_deviation,langevin_mean,langevin_"
      "deviation\n";
  for (size_t j = 0; j < reference.mean.size(); ++j)
    out += detail::concat(j, ",", reference.mean[j], ",", reference.deviation[j], ",", q.mean[j],
                          ",", q.deviation[j], ",", chains.mean[j], ",", chains.deviation[j], "\n");
  return out;
}

int run(const Options& given) {
  if (given.model != "linear" && given.model != "logistic")
    throw Error(Errc::invalid_argument, "--model is linear or logistic, not \"", given.model, "\"");
  if (!(given.precision > 0) || given.steps < 1 || given.samples < 1 || given.blocks < 1)
    throw Error(Errc::invalid_argument,
                "--precision wants a number above 0; --steps, --samples and ",
                "--blocks want at least 1");
  const bool logistic = given.model == "logistic";
  const Regression r = given.data ? load_regression(given.data, logistic, given.precision)
                                  : draw_regression(logistic, given.precision, given.seed);
  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);
  const LogSink say = given.say();
  const std::string work = work_of(r);
  if (given.resume) require_work(out, work);
  std::printf("data: %s, %lld records, %lld weights, %s model\n",
              given.data ? given.data->c_str() : "drawn from the model",
              static_cast<long long>(r.n()), static_cast<long long>(r.d()), given.model.c_str());
  const Laplace basis = laplace(r);
  Plot curve{"Variational inference", "step", "negative bound / n"};
  const Variational q = fit_variational(r, basis, given, cluster, out, curve, work);
  ChainOptions o;
  o.blocks = given.blocks;
  o.records = std::min(o.records, r.n());
  const WeightMoments langevin = run_chains(r, basis, o, given, cluster, out, "langevin");
  WeightMoments reference{basis.mean, basis.deviation};
  if (logistic) {
    o.exact = true, o.step = 0.4, o.blocks = std::max<int64_t>(1, given.blocks / 2);
    reference = run_chains(r, basis, o, given, cluster, out, "reference");
    std::printf("reference: a chain with Metropolis's test, which took %.0f %% of the moves\n",
                100 * reference.accepted);
    compare("Laplace", {basis.mean, basis.deviation}, reference);
  } else {
    std::printf("reference: the exact posterior\n");
  }
  const WeightMoments variational = moments_of(q, basis);
  compare("variational", variational, reference);
  compare("Langevin", langevin, reference);
  const Plot calibrated = calibration(r, q, basis, given.seed);
  std::printf(
      "posterior: %s\ncalibration: %s\ncurve: %s\n",
      write_extra(out / "posterior.csv", posterior_csv(reference, variational, langevin), say)
          .c_str(),
      write_plot(out, "calibration", calibrated, say).c_str(),
      write_plot(out, "curve", curve, say).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "bayes", given.out = "out/bayes";
  return run_program(
      given, "Bayesian regression by variational inference and by Langevin chains", argc, argv,
      [&](Flags& flags) {
        flags.add("model", &given.model, "linear or logistic");
        flags.add("precision", &given.precision, "of the prior: 1 / its variance");
        flags.add("steps", &given.steps, "of variational inference");
        flags.add("samples", &given.samples, "of a step, for each tower");
        flags.add("blocks", &given.blocks, "of 500 moves of each chain");
        add_common_flags(flags, given,
                         {.data = "table as CSV whose last column is a number, or for the logistic "
                                  "model 0 or 1 (default: records drawn from the model)",
                          .seed = "for all random numbers",
                          .resume = "go on from the newest checkpoints in --out"});
      },
      [&] { return run(given); });
}
