// Metrics: plain accumulators on the host that compare a model's results with the labels. Each
// takes values batch by batch, cut in any way, and has one value for all of them; make a new one to
// reset. NaN is the value of no input (BLEU's is 0), and of input for which a formula is undefined.
// Implemented in training/metrics/metrics.cpp and training/metrics/bleu.cpp.
//
// add() throws Error(invalid_argument) for shapes and dtypes that do not fit. Labels and classes
// are i32 or i64, scores f32 or f64, all of them on the host.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "troupe/data.hpp"

namespace troupe {

// The mean of numbers, each of which counts `weight` times: of losses, by records, say.
class MeanMetric {
 public:
  void add(double value, double weight = 1);
  double value() const;

 private:
  double sum_ = 0, weight_ = 0;
};

// e to the mean of -log(probability) for each token (Jelinek et al. 1977).
class Perplexity {
 public:
  void add(double mean_loss, double tokens);
  double value() const;

 private:
  MeanMetric mean_;
};

// The share of the records whose class is the label.
class Accuracy {
 public:
  void add(const Tensor& classes, const Tensor& labels);  // of one shape
  double value() const;

 private:
  int64_t right_ = 0, all_ = 0;
};

// The share of the records in which fewer than k classes have a higher score than the label.
// Requires: k >= 1.
class TopKAccuracy {
 public:
  explicit TopKAccuracy(int64_t k);
  void add(const Tensor& scores, const Tensor& labels);  // [..., classes], [...]
  double value() const;

 private:
  int64_t k_, right_ = 0, all_ = 0;
};

// The area under the curve of the receiver operating characteristic: the chance that a positive
// record has a higher score than a negative one, equal scores counting half (Hanley and McNeil
// 1982). Exact, so it keeps all scores: 16 bytes a record.
class Auc {
 public:
  void add(const Tensor& scores, const Tensor& labels);  // of one shape; labels are 0 and 1
  double value() const;                                  // NaN without both kinds of labels

 private:
  std::vector<std::pair<double, bool>> records_;
};

// The number of records of each class that were predicted as each class. Requires: classes >= 1.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t classes);
  void add(const Tensor& predicted, const Tensor& labels);  // of one shape
  int64_t count(int64_t label, int64_t predicted) const;
  int64_t classes() const { return classes_; }
  double accuracy() const;
  // precision: the share of the records predicted as the class that belong to it; recall: the share
  // of the class's records that were predicted as it; f1: 2 / (1 / precision + 1 / recall). 0
  // instead of a division by zero.
  double precision(int64_t of_class) const;
  double recall(int64_t of_class) const;
  double f1(int64_t of_class) const;
  // The means over all classes, with equal weights.
  double mean_precision() const;
  double mean_recall() const;
  double mean_f1() const;

 private:
  void check(int64_t of_class) const;
  int64_t classes_;
  std::vector<int64_t> counts_;  // [label, predicted]
};

// BLEU of a whole set of translations (Papineni et al. 2002), in [0, 1]: the geometric mean of the
// clipped precisions of 1 to 4 tokens in a row, times e^(1 - r / c) if the c tokens of all
// translations are fewer than the r of the references nearest in length (of equals the shorter
// one).
class Bleu {
 public:
  static constexpr int kOrder = 4;
  using Sentence = std::vector<int64_t>;
  // `smooth`: 1 is added to both numbers of each precision except the first (Lin and Och 2004), so
  // that short sets have a value; otherwise a precision without a match makes the result 0.
  explicit Bleu(bool smooth = false) : smooth_(smooth) {}
  void add(const Sentence& translation, std::span<const Sentence> references);
  void add(const Sentence& translation, const Sentence& reference) {
    add(translation, std::span(&reference, 1));
  }
  // The same for words, with one reference.
  void add(std::span<const std::string> translation, std::span<const std::string> reference);
  double value() const;

 private:
  bool smooth_;
  std::array<int64_t, kOrder> matches_ = {}, tries_ = {};
  int64_t length_ = 0, reference_length_ = 0;
};

// ---- metrics for evaluate() and fit() ----
// One number for a whole data set, and how to compute it. It holds no counts, so its copies are
// independent.
struct Metric {
  // The counts of one evaluation.
  struct Tally {
    // `values` are the results that evaluate() fetched for a batch.
    std::function<void(const std::vector<Tensor>& values, const Batch& batch)> add;
    std::function<double()> value;
  };
  std::string name;
  bool greater_is_better = true;
  std::function<Tally()> begin;  // an empty tally
};
// A metric from an accumulator: each evaluation begins with a copy of `fresh`; add(accumulator,
// values, batch) is called for each batch, value(accumulator) at the end.
//   metric("recall of 1", ConfusionMatrix(2),
//          [](auto& m, const auto& values, const Batch& b) { m.add(values[0], b.labels); },
//          [](const auto& m) { return m.recall(1); })
template <class Accumulator, class Add, class Value>
Metric metric(std::string name, Accumulator fresh, Add add, Value value,
              bool greater_is_better = true) {
  return {std::move(name), greater_is_better, [fresh, add, value] {
            const auto now = std::make_shared<Accumulator>(fresh);
            return Metric::Tally{[now, add](const std::vector<Tensor>& values, const Batch& batch) {
                                   add(*now, values, batch);
                                 },
                                 [now, value] { return static_cast<double>(value(*now)); }};
          }};
}
// Metrics of the value fetched as number `fetch`: mean_loss, a mean over the records of its batch;
// accuracy, classes as argmax() gives them; top_k_accuracy, scores [..., classes] for labels [...];
// auc, scores [n] of label 1.
Metric mean_loss(size_t fetch = 0, std::string name = "loss");
// e to the mean of a loss for each label of a batch, however many a record has.
Metric perplexity(size_t fetch = 0, std::string name = "perplexity");
Metric accuracy(size_t fetch = 0, std::string name = "accuracy");
Metric top_k_accuracy(int64_t k, size_t fetch = 0, std::string name = "top-k accuracy");
Metric auc(size_t fetch = 0, std::string name = "auc");
// BLEU of translations [n, most] against labels [n, most of them], or with several references for
// each translation [n, references, most of them]. Tokens are i32 or i64; a sentence ends before the
// first `end`, or at the end of its row. If there are several references, those without a token do
// not count.
Metric bleu(int64_t end, size_t fetch = 0, std::string name = "BLEU", bool smooth = false);

}  // namespace troupe
