// Metrics: plain accumulators of what a model says and what is right, on the host. Each takes
// values batch by batch, in any cut, and has one value of all of them; reset by making a new one.
// NaN is the value of nothing (BLEU's is 0), or what a formula cannot say of what was added.
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

// The part of the records whose class is the label.
class Accuracy {
 public:
  void add(const Tensor& classes, const Tensor& labels);  // of one shape
  double value() const;

 private:
  int64_t right_ = 0, all_ = 0;
};

// The part of the records of which fewer than k classes have a higher score than the label.
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

// How often a record of one class was taken for another. Requires: classes >= 1.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t classes);
  void add(const Tensor& predicted, const Tensor& labels);  // of one shape
  int64_t count(int64_t label, int64_t predicted) const;
  int64_t classes() const { return classes_; }
  double accuracy() const;
  // Of the records that were taken for the class, the part that is of it; of those that are of it,
  // the part that was taken for it; and 2 / (1 / precision + 1 / recall). 0 where there is nothing
  // to divide by.
  double precision(int64_t of_class) const;
  double recall(int64_t of_class) const;
  double f1(int64_t of_class) const;
  // The means over all classes, each counting once.
  double mean_precision() const;
  double mean_recall() const;
  double mean_f1() const;

 private:
  void check(int64_t of_class) const;
  int64_t classes_;
  std::vector<int64_t> counts_;  // [label, predicted]
};

// BLEU of a whole set of translations (Papineni et al. 2002), in [0, 1]: the geometric mean of the
// clipped precisions of 1 to 4 tokens in a row, times e^(1 - r / c) where the c tokens of all
// translations are fewer than the r of the references nearest in length (of equals the shorter
// one).
class Bleu {
 public:
  static constexpr int kOrder = 4;
  using Sentence = std::vector<int64_t>;
  // `smooth`: 1 is added to both numbers of each precision but the first (Lin and Och 2004), so
  // that short sets have a value; else one that has no match makes all 0.
  explicit Bleu(bool smooth = false) : smooth_(smooth) {}
  void add(const Sentence& translation, std::span<const Sentence> references);
  void add(const Sentence& translation, const Sentence& reference) {
    add(translation, std::span(&reference, 1));
  }
  double value() const;

 private:
  bool smooth_;
  std::array<int64_t, kOrder> matches_ = {}, tries_ = {};
  int64_t length_ = 0, reference_length_ = 0;
};

// ---- metrics for evaluate() and fit() ----

// One number of a whole data set: what is counted, and how. It holds no counts, so copies of it
// have nothing in common.
struct Metric {
  // The counts of one evaluation.
  struct Tally {
    // `values` are what evaluate() fetched for a batch.
    std::function<void(const std::vector<Tensor>& values, const Batch& batch)> add;
    std::function<double()> value;
  };
  std::string name;
  bool greater_is_better = true;
  std::function<Tally()> begin;  // of nothing so far
};
// Of an accumulator: `fresh` is where each evaluation begins, add(accumulator, values, batch) is
// called for each batch, value(accumulator) at the end.
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
// Of the value that was fetched as number `fetch`: a mean over the records of its batch; the
// classes, as argmax() gives them; scores [..., classes], labels [...]; scores [n] of label 1.
Metric mean_loss(size_t fetch = 0, std::string name = "loss");
// e to the mean of a loss for each of the labels of a batch, however many a record has.
Metric perplexity(size_t fetch = 0, std::string name = "perplexity");
Metric accuracy(size_t fetch = 0, std::string name = "accuracy");
Metric top_k_accuracy(int64_t k, size_t fetch = 0, std::string name = "top-k accuracy");
Metric auc(size_t fetch = 0, std::string name = "auc");
// BLEU of translations [n, most] against labels [n, most of them], or with several references for
// each translation [n, references, most of them]. Tokens are i32 or i64; a sentence goes up to the
// first `end`, or to the end of its row. Of several references those without a token do not count.
Metric bleu(int64_t end, size_t fetch = 0, std::string name = "BLEU", bool smooth = false);

}  // namespace troupe
