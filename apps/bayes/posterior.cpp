// Loads or draws the data, and finds the mode.
#include "apps/bayes/posterior.hpp"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <random>

#include "troupe/session.hpp"

using namespace troupe;

namespace {

constexpr int kNewtonSteps = 30;

Tensor with_ones(const Tensor& x) {  // a last column of ones
  const int64_t n = x.dim(0), columns = x.dim(1);
  Tensor out = Tensor::empty(DType::f64, {n, columns + 1});
  for (int64_t i = 0; i < n; ++i) {
    double* const row = std::copy_n(x.data<double>() + i * columns, columns,
                                    out.mutable_data<double>() + i * (columns + 1));
    *row = 1;
  }
  return out;
}

Tensor as_f64(const Tensor& labels, double middle, double width) {
  Tensor out = Tensor::empty(DType::f64, {labels.size()});
  with_type(labels.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < labels.size(); ++i)
      out.mutable_data<double>()[i] = (static_cast<double>(labels.data<T>()[i]) - middle) / width;
  });
  return out;
}

double mean_of(const Tensor& x) {
  double sum = 0;
  for (const double value : x.values<double>()) sum += value;
  return sum / static_cast<double>(x.size());
}

// The variance of the residuals of least squares, which is taken as known.
double noise_of(const Tensor& x, const Tensor& y) {
  Graph graph;
  const Output a = constant(graph, x), b = expand_dims(constant(graph, y), 1);
  const Output w =
      solve(matmul(a, a, {.transpose_a = true}) + eye(graph, x.dim(1), -1, DType::f64) * 1e-9,
            matmul(a, b, {.transpose_a = true}));
  Session session = Session::local(graph);
  const double sum = session.run({reduce_sum(square(matmul(a, w) - b))})[0].item<double>();
  return sum / static_cast<double>(std::max<int64_t>(1, x.dim(0) - x.dim(1)));
}

}  // namespace

Regression load_regression(const std::optional<std::string>& data, bool logistic,
                           double precision) {
  const Table table = load_table(data, logistic ? DType::i64 : DType::f32);
  if (logistic && table.classes != 2)
    throw Error(Errc::bad_data, *data, " has ", table.classes,
                " classes; logistic regression wants the labels 0 and 1");
  const Standardizer scaled(table.train.features);
  Regression r{logistic, precision};
  r.x = with_ones(scaled(table.train.features, DType::f64));
  r.test_x = with_ones(scaled(table.test.features, DType::f64));
  double middle = 0, width = 1;
  if (!logistic) {
    middle = mean_of(as_f64(table.train.labels, 0, 1));
    double squares = 0;
    for (const double y : as_f64(table.train.labels, middle, 1).values<double>()) squares += y * y;
    width = std::sqrt(squares / static_cast<double>(table.train.size()));
    if (!(width > 0)) throw Error(Errc::bad_data, *data, ": all labels are ", middle);
  }
  r.y = as_f64(table.train.labels, middle, width);
  r.test_y = as_f64(table.test.labels, middle, width);
  if (!logistic && r.n() <= r.d())
    throw Error(Errc::bad_data, table.name, ": ", r.n(), " records tell no noise beside ", r.d(),
                " weights; a linear model wants more records");
  if (!logistic) r.noise = noise_of(r.x, r.y);
  return r;
}

Regression draw_regression(bool logistic, double precision, int64_t seed) {
  constexpr int64_t kColumns = 8, kTrain = 400, kTest = 400;
  std::mt19937_64 bits(static_cast<uint64_t>(seed));
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Regression r{logistic, precision, 0.5};
  std::vector<double> w(kColumns + 1);
  for (double& value : w) value = normal(bits) / std::sqrt(precision);
  const auto draw = [&](int64_t n, Tensor& x, Tensor& y) {
    Tensor features = Tensor::empty(DType::f64, {n, kColumns});
    y = Tensor::empty(DType::f64, {n});
    for (int64_t i = 0; i < n; ++i) {
      double* const row = features.mutable_data<double>() + i * kColumns;
      for (int64_t j = 0; j < kColumns; ++j) row[j] = normal(bits);
      row[1] = 0.9 * row[0] + std::sqrt(1 - 0.81) * row[1];
      double score = w[kColumns];
      for (int64_t j = 0; j < kColumns; ++j) score += row[j] * w[static_cast<size_t>(j)];
      y.mutable_data<double>()[i] = logistic ? (uniform(bits) < 1 / (1 + std::exp(-score)) ? 1 : 0)
                                             : score + std::sqrt(r.noise) * normal(bits);
    }
    x = with_ones(features);
  };
  draw(kTrain, r.x, r.y);
  draw(kTest, r.test_x, r.test_y);
  return r;
}

std::string work_of(const Regression& r) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, by words
  for (const Tensor& part : {r.x, r.y})
    for (const double value : part.values<double>())
      hash = (hash ^ std::bit_cast<uint64_t>(value)) * 0x100000001b3u;
  char records[24];
  std::snprintf(records, sizeof records, "%016" PRIx64, hash);
  return detail::concat(r.logistic ? "logistic" : "linear", " model, prior precision ", r.precision,
                        ", ", r.n(), " records with the hash ", records);
}

Output misfit(const Regression& r, Output logits, Output y) {
  const Output want = broadcast_like(expand_dims(y, 1), logits);
  if (r.logistic) return reduce_sum(sigmoid_cross_entropy(logits, want), {.axes = {0}});
  return reduce_sum(square(logits - want), {.axes = {0}}) / (2 * r.noise);
}

Output residuals(const Regression& r, Output logits, Output y) {
  const Output want = expand_dims(y, 1);
  if (r.logistic) return want - sigmoid(logits);
  return (want - logits) / r.noise;
}

Laplace laplace(const Regression& r) {
  Graph graph;
  const int64_t d = r.d();
  const Output x = constant(graph, r.x), y = constant(graph, r.y);
  const Output identity = eye(graph, d, -1, DType::f64);
  const auto hessian_at = [&](Output w) {
    const Output p = sigmoid(matmul(x, w));
    const Output weighted = r.logistic ? x * (p * (1.0 - p)) : x / r.noise;
    return matmul(x, weighted, {.transpose_a = true}) + identity * r.precision;
  };
  const Output first = fill(graph, {d, 1}, 0, DType::f64);
  const auto steps = while_loop(
      [&](const auto& v) { return less(v[1], fill(graph, {}, kNewtonSteps, DType::i64)); },
      [&](const std::vector<Output>& v) {
        const Output slope =
            matmul(x, residuals(r, matmul(x, v[0]), y), {.transpose_a = true}) - v[0] * r.precision;
        return std::vector<Output>{v[0] + solve(hessian_at(v[0]), slope),
                                   v[1] + fill(graph, {}, 1, DType::i64)};
      },
      {first, fill(graph, {}, 0, DType::i64)}, {.name = "newton"});
  const Output lower = cholesky(hessian_at(steps[0]));
  const Output t = triangular_solve(lower, identity, {.transpose = true});
  Session session = Session::local(graph);
  const auto got =
      session.run({reshape(steps[0], {d}), t, matmul(lower, steps[0], {.transpose_a = true})});
  Laplace out{got[2], got[1], {}, {}};
  for (int64_t j = 0; j < d; ++j) {
    double variance = 0;
    for (int64_t k = 0; k < d; ++k) variance += std::pow(got[1].data<double>()[j * d + k], 2);
    out.mean.push_back(got[0].data<double>()[j]);
    out.deviation.push_back(std::sqrt(variance));
  }
  return out;
}
