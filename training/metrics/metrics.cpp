// The metrics of troupe/metrics.hpp, except BLEU.
#include "troupe/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "training/metrics/metric_values.hpp"

namespace troupe {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double part(int64_t some, int64_t all) {
  return all > 0 ? static_cast<double>(some) / static_cast<double>(all) : kNothing;
}

void require_scores(const char* metric, const Tensor& x) {
  if (!x.on_host() || !is_wide_float(x.dtype()))
    throw refused_by(metric, "wants scores of f32 or f64 on the host, got ", x.dtype());
}
void require_same_shape(const char* metric, const Tensor& x, const Tensor& labels) {
  if (x.shape() != labels.shape())
    throw refused_by(metric, "wants one label for each prediction, got ", labels.shape(), " for ",
                     x.shape(),
                     labels.size() == x.size() ? "; give one of them the shape of the other" : "");
}

double number_at(const Tensor& x, int64_t i) {
  return x.dtype() == DType::f32 ? double{x.data<float>()[i]} : x.data<double>()[i];
}

}  // namespace

void MeanMetric::add(double value, double weight) {
  if (!(weight >= 0)) throw refused_by("MeanMetric", "wants a weight from 0, got ", weight);
  if (weight == 0) return;  // the mean of no records is NaN
  sum_ += value * weight;
  weight_ += weight;
}

double MeanMetric::value() const { return weight_ > 0 ? sum_ / weight_ : kNothing; }

void Perplexity::add(double mean_loss, double tokens) { mean_.add(mean_loss, tokens); }

double Perplexity::value() const { return std::exp(mean_.value()); }

void Accuracy::add(const Tensor& classes, const Tensor& labels) {
  if (is_wide_float(classes.dtype()) || is_half(classes.dtype()))
    throw refused_by("Accuracy", "wants classes of i32 or i64, got ", classes.dtype(),
                     classes.shape(), "; if these are scores or logits [..., classes], fetch ",
                     "argmax() of them, the class with the highest one");
  require_integers("Accuracy", "classes", classes);
  require_integers("Accuracy", "labels", labels);
  require_same_shape("Accuracy", classes, labels);
  for (int64_t i = 0; i < labels.size(); ++i)
    right_ += integer_at(classes, i) == integer_at(labels, i);
  all_ += labels.size();
}

double Accuracy::value() const { return part(right_, all_); }

TopKAccuracy::TopKAccuracy(int64_t k) : k_(k) {
  if (k < 1) throw refused_by("TopKAccuracy", "wants k from 1, got ", k);
}

void TopKAccuracy::add(const Tensor& scores, const Tensor& labels) {
  require_scores("TopKAccuracy", scores);
  require_integers("TopKAccuracy", "labels", labels);
  bool fits = scores.ndim() == labels.ndim() + 1;
  for (int d = 0; fits && d < labels.ndim(); ++d) fits = scores.dim(d) == labels.dim(d);
  if (!fits)
    throw refused_by("TopKAccuracy", "wants scores [..., classes] and a label for each row, [...]",
                     ", got ", scores.shape(), " and ", labels.shape());
  const int64_t classes = scores.dim(labels.ndim());
  for (int64_t i = 0; i < labels.size(); ++i) {
    const int64_t label = integer_at(labels, i);
    if (label < 0 || label >= classes)
      throw refused_by("TopKAccuracy", "label ", label, " is none of ", classes, " classes");
    const double own = number_at(scores, i * classes + label);
    int64_t higher = 0;
    for (int64_t c = 0; c < classes; ++c) higher += number_at(scores, i * classes + c) > own;
    right_ += higher < k_ && !std::isnan(own);
  }
  all_ += labels.size();
}

double TopKAccuracy::value() const { return part(right_, all_); }

void Auc::add(const Tensor& scores, const Tensor& labels) {
  require_scores("Auc", scores);
  require_integers("Auc", "labels", labels);
  require_same_shape("Auc", scores, labels);
  for (int64_t i = 0; i < labels.size(); ++i) {
    const int64_t label = integer_at(labels, i);
    const double score = number_at(scores, i);
    if (label != 0 && label != 1) throw refused_by("Auc", "wants labels 0 and 1, got ", label);
    if (std::isnan(score)) throw refused_by("Auc", "got a score that is NaN, which has no order");
    records_.emplace_back(score, label == 1);
  }
}

// By ranks: U = (sum of the ranks of the positives) - p * (p + 1) / 2, and the area is U / (p * n).
// Equal scores share the mean of their ranks.
double Auc::value() const {
  auto sorted = records_;
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  double ranks = 0;
  int64_t positive = 0;
  for (size_t begin = 0; begin < sorted.size();) {
    size_t end = begin;
    int64_t here = 0;
    for (; end < sorted.size() && sorted[end].first == sorted[begin].first; ++end)
      here += sorted[end].second;
    const double rank = (static_cast<double>(begin) + 1 + static_cast<double>(end)) / 2;
    ranks += rank * static_cast<double>(here);
    positive += here;
    begin = end;
  }
  const double p = static_cast<double>(positive), n = static_cast<double>(sorted.size()) - p;
  return p > 0 && n > 0 ? (ranks - p * (p + 1) / 2) / (p * n) : kNothing;
}

ConfusionMatrix::ConfusionMatrix(int64_t classes) : classes_(classes) {
  constexpr int64_t kMost = 1 << 15;  // its counts take 8 GiB
  if (classes < 1 || classes > kMost)
    throw refused_by("ConfusionMatrix", "wants classes from 1 to ", kMost, ", got ", classes);
  counts_.resize(static_cast<size_t>(classes * classes));
}

void ConfusionMatrix::check(int64_t of_class) const {
  if (of_class < 0 || of_class >= classes_)
    throw refused_by("ConfusionMatrix", of_class, " is none of ", classes_, " classes");
}

void ConfusionMatrix::add(const Tensor& predicted, const Tensor& labels) {
  require_integers("ConfusionMatrix", "classes", predicted);
  require_integers("ConfusionMatrix", "labels", labels);
  require_same_shape("ConfusionMatrix", predicted, labels);
  for (int64_t i = 0; i < labels.size(); ++i) {
    const int64_t label = integer_at(labels, i), said = integer_at(predicted, i);
    check(label);
    check(said);
    ++counts_[static_cast<size_t>(label * classes_ + said)];
  }
}

int64_t ConfusionMatrix::count(int64_t label, int64_t predicted) const {
  check(label);
  check(predicted);
  return counts_[static_cast<size_t>(label * classes_ + predicted)];
}

double ConfusionMatrix::accuracy() const {
  int64_t right = 0, all = 0;
  for (int64_t c = 0; c < classes_; ++c) right += count(c, c);
  for (int64_t n : counts_) all += n;
  return part(right, all);
}

double ConfusionMatrix::precision(int64_t of_class) const {
  int64_t taken = 0;
  for (int64_t c = 0; c < classes_; ++c) taken += count(c, of_class);
  return taken > 0 ? part(count(of_class, of_class), taken) : 0;
}

double ConfusionMatrix::recall(int64_t of_class) const {
  int64_t there = 0;
  for (int64_t c = 0; c < classes_; ++c) there += count(of_class, c);
  return there > 0 ? part(count(of_class, of_class), there) : 0;
}

double ConfusionMatrix::f1(int64_t of_class) const {
  const double p = precision(of_class), r = recall(of_class);
  return p + r > 0 ? 2 * p * r / (p + r) : 0;
}

namespace {

template <class F>
double mean_over(int64_t classes, F f) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += f(c);
  return sum / static_cast<double>(classes);
}

}  // namespace

double ConfusionMatrix::mean_precision() const {
  return mean_over(classes_, [this](int64_t c) { return precision(c); });
}
double ConfusionMatrix::mean_recall() const {
  return mean_over(classes_, [this](int64_t c) { return recall(c); });
}
double ConfusionMatrix::mean_f1() const {
  return mean_over(classes_, [this](int64_t c) { return f1(c); });
}

namespace {

// The fetched value that the metric reads.
const Tensor& fetched(const std::string& name, const std::vector<Tensor>& values, size_t fetch) {
  if (fetch >= values.size())
    throw refused_by(name, "is of fetch ", fetch, ", but only ", values.size(),
                     " are fetched; add it to Evaluation::fetches");
  return values[fetch];
}

double scalar(const std::string& name, const std::vector<Tensor>& values, size_t fetch) {
  const Tensor& x = fetched(name, values, fetch);
  require_scores(name.c_str(), x);
  if (x.size() != 1) throw refused_by(name, "wants one number for a batch, got ", x.shape());
  return number_at(x, 0);
}

double value_of(const auto& accumulator) { return accumulator.value(); }

template <class Accumulator>
Metric by_labels(std::string name, Accumulator fresh, size_t fetch) {
  return metric(
      name, fresh,
      [name, fetch](Accumulator& a, const std::vector<Tensor>& values, const Batch& batch) {
        a.add(fetched(name, values, fetch), batch.labels);
      },
      value_of<Accumulator>);
}

}  // namespace

Metric mean_loss(size_t fetch, std::string name) {
  return metric(
      name, MeanMetric(),
      [name, fetch](MeanMetric& a, const std::vector<Tensor>& values, const Batch& batch) {
        a.add(scalar(name, values, fetch), static_cast<double>(batch.features.dim(0)));
      },
      value_of<MeanMetric>, false);
}

Metric perplexity(size_t fetch, std::string name) {
  return metric(
      name, Perplexity(),
      [name, fetch](Perplexity& a, const std::vector<Tensor>& values, const Batch& batch) {
        a.add(scalar(name, values, fetch), static_cast<double>(batch.labels.size()));
      },
      value_of<Perplexity>, false);
}

Metric accuracy(size_t fetch, std::string name) {
  return by_labels(std::move(name), Accuracy(), fetch);
}

Metric top_k_accuracy(int64_t k, size_t fetch, std::string name) {
  return by_labels(std::move(name), TopKAccuracy(k), fetch);
}

Metric auc(size_t fetch, std::string name) { return by_labels(std::move(name), Auc(), fetch); }

}  // namespace troupe
