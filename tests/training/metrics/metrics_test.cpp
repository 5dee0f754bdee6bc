// Metrics against values of scikit-learn (accuracies, top-k, area under the curve, precision,
// recall) and of sacrebleu and nltk (BLEU), which agree; and their refusals.
#include "troupe/metrics.hpp"

#include <cmath>
#include <vector>

#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

Tensor labels(const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>(values, {static_cast<int64_t>(values.size())});
}

// The same metric over two batches, the first with `cut` records.
template <class Metric>
double in_two(Metric metric, const Tensor& x, const Tensor& y, int64_t cut) {
  metric.add(x.rows(0, cut), y.rows(0, cut));
  metric.add(x.rows(cut, x.dim(0)), y.rows(cut, y.dim(0)));
  return metric.value();
}

TEST_CASE("a mean weighs what is added, and has no value of nothing") {
  MeanMetric mean;
  CHECK(std::isnan(mean.value()));
  mean.add(2, 3);
  mean.add(NAN, 0);
  mean.add(6);
  CHECK(mean.value() == 3);
  CHECK_THROWS_AS(mean.add(1, -1), Error);
}

TEST_CASE("perplexity is e to the mean loss of all tokens, whatever their batches were") {
  Perplexity p;
  p.add(std::log(8.0), 10);
  p.add(std::log(2.0), 30);
  CHECK(p.value() == doctest::Approx(std::pow(8.0, 0.25) * std::pow(2.0, 0.75)).epsilon(1e-14));
  CHECK(std::isnan(Perplexity().value()));
}

const std::vector<int64_t> kPredicted = {2, 3, 2, 1, 1, 3, 2, 0, 3, 3, 0, 0, 2, 1, 1,
                                         0, 0, 3, 3, 3, 2, 0, 1, 2, 3, 1, 2, 1, 2, 2};
const std::vector<int64_t> kTrue = {2, 3, 2, 1, 1, 3, 2, 0, 1, 2, 0, 0, 1, 3, 1,
                                    1, 0, 3, 0, 3, 0, 3, 1, 2, 3, 1, 2, 1, 2, 2};

TEST_CASE("accuracy is the part of records that are told right") {
  for (const int64_t cut : {0, 1, 17, 30})
    CHECK(in_two(Accuracy(), labels(kPredicted), labels(kTrue), cut) ==
          doctest::Approx(0.7333333333333333).epsilon(1e-15));
  CHECK(std::isnan(Accuracy().value()));
  Accuracy narrow;
  narrow.add(Tensor::of<int32_t>({1, 2}, {2}), labels({1, 3}));
  CHECK(narrow.value() == 0.5);
}

TEST_CASE("precision, recall and F1 are those of scikit-learn") {
  ConfusionMatrix m(4);
  m.add(labels(kPredicted), labels(kTrue));
  CHECK(m.count(0, 3) == 1);
  CHECK(m.count(2, 2) == 7);
  CHECK(m.count(3, 2) == 0);
  CHECK(m.accuracy() == doctest::Approx(0.7333333333333333));
  const double precision[] = {0.6666666666666666, 0.8571428571428571, 0.7777777777777778, 0.625};
  const double recall[] = {0.6666666666666666, 0.6666666666666666, 0.875, 0.7142857142857143};
  const double f1[] = {0.6666666666666666, 0.75, 0.8235294117647058, 0.6666666666666666};
  for (int64_t c = 0; c < 4; ++c) {
    CAPTURE(c);
    CHECK(m.precision(c) == doctest::Approx(precision[c]).epsilon(1e-14));
    CHECK(m.recall(c) == doctest::Approx(recall[c]).epsilon(1e-14));
    CHECK(m.f1(c) == doctest::Approx(f1[c]).epsilon(1e-14));
  }
  CHECK(m.mean_precision() == doctest::Approx(0.7316468253968254).epsilon(1e-14));
  CHECK(m.mean_recall() == doctest::Approx(0.7306547619047619).epsilon(1e-14));
  CHECK(m.mean_f1() == doctest::Approx(0.7267156862745098).epsilon(1e-14));
}

TEST_CASE("a class that nothing is of or taken for has precision, recall and F1 of 0") {
  ConfusionMatrix m(3);
  CHECK(std::isnan(m.accuracy()));
  m.add(labels({0, 0}), labels({0, 1}));
  CHECK(m.precision(2) == 0);
  CHECK(m.recall(2) == 0);
  CHECK(m.f1(1) == 0);
  CHECK(m.precision(0) == 0.5);
}

TEST_CASE("top-k accuracy counts labels that few classes have a higher score than") {
  const Tensor scores = Tensor::of<float>(
      {0.015F, 0.933F, 0.086F, 0.845F, 0.368F, 0.951F, 0.399F, 0.936F, 0.556F, 0.24F,
       0.741F, 0.674F, 0.684F, 0.464F, 0.222F, 0.641F, 0.107F, 0.692F, 0.635F, 0.377F,
       0.799F, 0.194F, 0.39F,  0.798F, 0.38F,  0.713F, 0.613F, 0.941F, 0.992F, 0.724F,
       0.809F, 0.153F, 0.713F, 0.848F, 0.401F, 0.553F, 0.479F, 0.959F, 0.317F, 0.402F},
      {8, 5});
  const Tensor y = labels({0, 0, 3, 2, 1, 3, 2, 4});
  const double wanted[] = {0.375, 0.375, 0.5, -1, 1};
  for (const int64_t k : {1, 2, 3, 5})
    CHECK(in_two(TopKAccuracy(k), scores, y, 3) == wanted[k - 1]);
  for (const int64_t k : {1, 2, 3, 5}) {  // equal for rows of sequences and for single records
    CAPTURE(k);
    const Tensor sequences = scores.reshaped({2, 4, 5}), words = y.reshaped({2, 4});
    CHECK(in_two(TopKAccuracy(k), sequences, words, 1) == wanted[k - 1]);
    TopKAccuracy single(k);
    for (int64_t i = 0; i < 8; ++i)
      single.add(scores.rows(i, i + 1).reshaped({5}), y.rows(i, i + 1).reshaped({}));
    CHECK(single.value() == wanted[k - 1]);
  }
  TopKAccuracy equals(1);  // both scores are the highest
  equals.add(Tensor::of<double>({0.5, 0.5, NAN, 1}, {2, 2}), labels({1, 0}));
  CHECK(equals.value() == 0.5);
}

TEST_CASE("the area under the curve counts equal scores half, in any order") {
  const Tensor scores =
      Tensor::of<double>({-0.8, -1.3, -0.2, 0.4,  1.1,  0.1,  -0.6, -0.8, 0.7,  1.6, 0.3,  -1.2,
                          -1.0, 1.6,  0.2,  -1.7, -0.1, -1.2, -0.6, -0.5, -0.7, 0.6, -0.1, -0.6},
                         {24});
  const Tensor y = labels({0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1});
  for (const int64_t cut : {0, 5, 24})
    CHECK(in_two(Auc(), scores, y, cut) == doctest::Approx(0.5321428571428571).epsilon(1e-14));
  Auc perfect, one_kind;
  perfect.add(Tensor::of<float>({-INFINITY, 0, INFINITY}, {3}), labels({0, 0, 1}));
  CHECK(perfect.value() == 1);
  one_kind.add(Tensor::of<float>({1, 2}, {2}), labels({1, 1}));
  CHECK(std::isnan(one_kind.value()));
}

// Sentences of Papineni et al. 2002 and of nltk's documentation, as word numbers.
const Bleu::Sentence kGuide = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 9, 13, 14, 9, 15};
const std::vector<Bleu::Sentence> kGuides = {
    {0, 1, 2, 3, 4, 5, 8, 7, 8, 9, 10, 25, 26, 27, 15, 13},
    {0, 1, 9, 28, 29, 6, 30, 9, 10, 31, 11, 32, 33, 9, 34, 14, 9, 15},
    {0, 1, 9, 35, 3, 36, 9, 37, 11, 4, 27, 9, 38, 14, 9, 15}};
const Bleu::Sentence kBook = {16, 17, 9, 18, 19, 16, 20, 21, 22, 23, 24};
const std::vector<Bleu::Sentence> kBooks = {{16, 20, 21, 22, 23, 24, 19, 16, 17, 9, 18}};
const Bleu::Sentence kThe = {9, 9, 9, 9, 9, 9, 9};
const std::vector<Bleu::Sentence> kCats = {{9, 39, 1, 40, 9, 41}, {42, 1, 2, 39, 40, 9, 41}};

TEST_CASE("BLEU is that of sacrebleu and nltk, sentence by sentence added") {
  const double plain[] = {0.5045666840058485, 0.5920778868801042, 0.4981976605824842};
  const double smooth[] = {0.539755306744061, 0.6108780048582715, 0.5164819675081522};
  Bleu bleu, smoothed(true);
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    for (Bleu* b : {&bleu, &smoothed}) {
      if (i == 0) b->add(kGuide, kGuides);
      if (i == 1) b->add(kBook, kBooks);
      if (i == 2) b->add(kThe, kCats);
    }
    CHECK(bleu.value() == doctest::Approx(plain[i]).epsilon(1e-13));
    CHECK(smoothed.value() == doctest::Approx(smooth[i]).epsilon(1e-13));
  }
}

TEST_CASE("BLEU of words is that of their numbers") {
  const std::vector<std::string> found = {"the", "cat", "is", "on", "the", "green", "mat"},
                                 wanted = {"the", "cat", "sat", "is", "on", "the", "mat", "."};
  Bleu words(true), numbers(true);
  words.add(found, wanted);
  numbers.add({1, 2, 3, 4, 1, 5, 6}, {1, 2, 7, 3, 4, 1, 6, 8});
  CHECK(words.value() == numbers.value());
  CHECK(words.value() > 0.3);
  CHECK(words.value() < 0.9);
}

TEST_CASE("BLEU of a perfect translation is 1, of a short one less, and of no matches 0") {
  Bleu perfect, cut, none, nothing;
  perfect.add(kBook, kBook);
  CHECK(perfect.value() == doctest::Approx(1).epsilon(1e-15));
  cut.add({16, 17, 9, 18}, kBook);  // 11 tokens, all correct
  CHECK(cut.value() == doctest::Approx(std::exp(1 - 11.0 / 4)).epsilon(1e-14));
  Bleu shorter;
  shorter.add({16, 17, 9}, kBook);  // no four words in a row
  CHECK(shorter.value() == 0);
  none.add({1, 2, 3, 4}, {5, 6, 7, 8});
  CHECK(none.value() == 0);
  CHECK(nothing.value() == 0);
  Bleu empty(true);
  empty.add({}, kBook);
  CHECK(empty.value() == 0);
  CHECK_THROWS_WITH_AS(empty.add(kBook, std::span<const Bleu::Sentence>()),
                       "Bleu: wants at least one reference for a translation", Error);
}

TEST_CASE("metrics refuse what does not fit, with what would be right") {
  const auto refused = [](auto&& call, const char* text) { check_invalid(call, text); };
  const Tensor two = labels({0, 1}), three = labels({0, 1, 2});
  const Tensor scores = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  refused([&] { Accuracy().add(two, three); },
          "wants one label for each prediction, got [3] for [2]");
  refused([&] { Accuracy().add(scores, two); },
          "Accuracy: wants classes of i32 or i64, got f32[2, 2]; if these are scores or logits "
          "[..., classes], fetch argmax() of them");
  refused(
      [&] {
        Accuracy().add(two, two.reshaped({2, 1}));
      },
      "wants one label for each prediction, got [2, 1] for [2]; give one of them the shape of");
  refused([&] { TopKAccuracy(0); }, "wants k from 1, got 0");
  refused([&] { TopKAccuracy(1).add(scores, three); }, "got [2, 2] and [3]");
  refused(
      [&] {
        TopKAccuracy(1).add(scores, two.reshaped({2, 1}));
      },
      "wants scores [..., classes] and a label for each row, [...], got [2, 2] and [2, 1]");
  refused([&] { TopKAccuracy(1).add(scores, labels({0, 2})); }, "label 2 is none of 2 classes");
  refused([&] { Auc().add(scores.reshaped({4}), labels({0, 1, 2, 0})); }, "labels 0 and 1, got 2");
  refused([&] { Auc().add(two, two); }, "Auc: wants scores of f32 or f64");
  refused([&] { Auc().add(Tensor::of<float>({NAN}, {1}), labels({0})); },
          "NaN, which has no order");
  refused([&] { ConfusionMatrix(0); }, "wants classes from 1 to 32768, got 0");
  refused([&] { ConfusionMatrix(int64_t{1} << 40); }, "got 1099511627776");
  refused([&] { ConfusionMatrix(2).add(three, three); }, "2 is none of 2 classes");
}

TEST_CASE("a metric of an accumulator begins anew for each evaluation") {
  const Batch batch{Tensor::zeros(DType::f32, {3, 1}), labels({0, 1, 1}), {0, 1, 2}};
  for (Metric m : {accuracy(1),
                   metric(
                       "of 1", ConfusionMatrix(2),
                       [](auto&c, const auto&values, const Batch&b) { c.add(values[1], b.labels); },
                       [](const auto&c) { return c.recall(1); })}) {
    CAPTURE(m.name);
    const bool is_recall = m.name == "of 1";
    for (int i = 0; i < 2; ++i) {
      const Metric::Tally tally = m.begin();
      tally.add({Tensor(), labels({1, 1, 1})}, batch);
      CHECK(tally.value() == doctest::Approx(is_recall ? 1 : 2.0 / 3));
    }
  }
  CHECK(!mean_loss().greater_is_better);
  const Metric::Tally loss = mean_loss().begin();
  loss.add({Tensor::scalar(2.0F)}, batch);
  loss.add({Tensor::scalar(6.0F)}, {batch.features.rows(0, 1), batch.labels.rows(0, 1), {3}});
  CHECK(loss.value() == 3);
  const Metric::Tally p = perplexity().begin();
  p.add({Tensor::scalar(0.0)}, batch);
  CHECK(p.value() == 1);
  CHECK_THROWS_WITH_AS(accuracy(2).begin().add({Tensor()}, batch),
                       doctest::Contains("accuracy: is of fetch 2, but only 1 are fetched"), Error);
  CHECK_THROWS_WITH_AS(mean_loss().begin().add({Tensor::zeros(DType::f32, {3})}, batch),
                       "loss: wants one number for a batch, got [3]", Error);
}

// Rows of one length, filled up with `end` and arbitrary words after it.
Tensor padded(const std::vector<Bleu::Sentence>& sentences, int64_t end, Shape shape) {
  const int64_t most = shape[shape.ndim() - 1];
  std::vector<int64_t> all;
  for (const Bleu::Sentence& sentence : sentences) {
    all.insert(all.end(), sentence.begin(), sentence.end());
    for (int64_t i = static_cast<int64_t>(sentence.size()); i < most; ++i)
      all.push_back(i == static_cast<int64_t>(sentence.size()) ? end : 9);
  }
  return Tensor::of<int64_t>(all, shape);
}

TEST_CASE("BLEU of an evaluation is that of its sentences, up to the tokens that end them") {
  const Metric metric = bleu(-1, 1), smoothed = bleu(-1, 0, "smoothed", true);
  CHECK(metric.name == "BLEU");
  CHECK(metric.greater_is_better);
  std::vector<Bleu::Sentence> references = kGuides;
  references.insert(references.end(), {kBooks[0], {}, {}});
  references.insert(references.end(), {kCats[0], {}, kCats[1]});
  const Tensor said = padded({kGuide, kBook, kThe}, -1, {3, 18}),
               right = padded(references, -1, {3, 3, 18});
  const Metric::Tally plain = metric.begin(), smooth = smoothed.begin();
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 3}}) {
    const Batch batch{.features = said.rows(begin, end), .labels = right.rows(begin, end)};
    plain.add({Tensor(), said.rows(begin, end)}, batch);
    smooth.add({said.rows(begin, end)}, batch);
  }
  CHECK(plain.value() == doctest::Approx(0.4981976605824842).epsilon(1e-13));
  CHECK(smooth.value() == doctest::Approx(0.5164819675081522).epsilon(1e-13));

  const Metric::Tally one = bleu(-1).begin();  // one reference each, i32
  const Tensor book = Tensor::of<int32_t>({16, 17, 9, 18, -1, 7}, {1, 6});
  one.add({book}, Batch{.labels = padded({kBook}, -1, {1, 11})});
  CHECK(one.value() == doctest::Approx(std::exp(1 - 11.0 / 4)).epsilon(1e-14));
}

TEST_CASE("BLEU of an evaluation refuses what are no sentences") {
  const auto refused = [](const Tensor& said, const Tensor& right, const char* text) {
    check_invalid([&] { bleu(0).begin().add({said}, Batch{.labels = right}); }, text);
  };
  const Tensor rows = Tensor::zeros(DType::i64, {2, 3});
  refused(rows, Tensor::zeros(DType::i64, {2}), "BLEU: wants translations [n, most] and");
  refused(rows, Tensor::zeros(DType::i64, {3, 3}), "got [2, 3] and [3, 3]");
  refused(rows, Tensor::zeros(DType::i64, {2, 0, 3}), "got [2, 3] and [2, 0, 3]");
  refused(Tensor::zeros(DType::f32, {2, 3}), rows, "BLEU: wants translations of i32 or i64");
  CHECK_THROWS_WITH_AS(bleu(0, 2).begin().add({rows}, Batch{.labels = rows}),
                       doctest::Contains("is of fetch 2, but only 1 are fetched"), Error);
}

TEST_CASE("copies of a metric, and two evaluations of one, count each for itself") {
  const Batch batch{Tensor::zeros(DType::f32, {1, 1}), labels({0}), {0}};
  const Metric first = mean_loss(), copy = first;
  const Metric::Tally a = first.begin(), b = copy.begin(), c = first.begin();
  a.add({Tensor::scalar(2.0F)}, batch);
  b.add({Tensor::scalar(4.0F)}, batch);
  c.add({Tensor::scalar(6.0F)}, batch);
  CHECK(a.value() == 2);
  CHECK(b.value() == 4);
  CHECK(c.value() == 6);
}

}  // namespace
}  // namespace troupe
