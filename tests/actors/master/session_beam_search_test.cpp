// Beam search against exhaustive search and against greedy choices, on decoders whose logits are a
// table: the last token, the step and the sentence decide about the next token.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/refusal.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr int64_t kClasses = 4, kBegin = 0, kEnd = 1, kSteps = 4, kBatch = 3;

// logits [sentence, step, last token, class]
Tensor table_of_logits() {
  Tensor out = Tensor::empty(DType::f64, {kBatch, kSteps, kClasses, kClasses});
  for (int64_t i = 0; i < out.size(); ++i)
    out.mutable_data<double>()[i] =
        2 * std::sin(1.9 * static_cast<double>(i) + 0.3) - (i % kClasses == kBegin ? 8 : 0);
  return out;
}

// The row of the table for a sentence, a step and a last token.
const double* row_at(const Tensor& table, int64_t sentence, int64_t step, int64_t last) {
  return table.data<double>() + ((sentence * kSteps + step) * kClasses + last) * kClasses;
}

double log_probability(const double* row, int64_t token) {
  double sum = 0;
  for (int64_t c = 0; c < kClasses; ++c) sum += std::exp(row[c]);
  return row[token] - std::log(sum);
}

struct Sentence {
  std::vector<int64_t> ids;
  double score = 0;
};

// All sentences that end with kEnd or have kSteps tokens, the best first.
std::vector<Sentence> all_sentences(const Tensor& table, int64_t sentence, double penalty) {
  std::vector<Sentence> open = {{{}, 0}}, out;
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<Sentence> longer;
    for (const Sentence& s : open)
      for (int64_t c = 0; c < kClasses; ++c) {
        Sentence next = s;
        next.score += log_probability(
            row_at(table, sentence, step, s.ids.empty() ? kBegin : s.ids.back()), c);
        next.ids.push_back(c);
        (c == kEnd || step + 1 == kSteps ? out : longer).push_back(next);
      }
    open = longer;
  }
  for (Sentence& s : out)
    s.score /= std::pow((5.0 + static_cast<double>(s.ids.size())) / 6, penalty);
  std::stable_sort(out.begin(), out.end(),
                   [](const Sentence& a, const Sentence& b) { return a.score > b.score; });
  return out;
}

struct Found {
  Tensor ids, lengths, scores;
};

// The states are the numbers of sentence and step.
Found search(const Tensor& table, nn::BeamOptions options) {
  Graph graph;
  const Output logits = reshape(constant(graph, table), {kBatch * kSteps * kClasses, kClasses});
  const Output sentence = placeholder(graph, DType::i64, {-1});
  options.begin = kBegin, options.end = kEnd, options.length_max = kSteps;
  const nn::Beams beams = nn::beam_search(
      [&](Output last, const std::vector<Output>& states) {
        const Output row = (states[0] * kSteps + states[1]) * kClasses + last;
        return nn::Decoded{gather(logits, row), {states[0], states[1] + 1}};
      },
      {sentence, zeros_like(sentence)}, options);
  Session session = Session::local(graph);
  const auto values = session.run({beams.ids, beams.lengths, beams.scores},
                                  {{sentence, Tensor::of<int64_t>({0, 1, 2}, {kBatch})}});
  return {values[0], values[1], values[2]};
}

std::vector<int64_t> ids_of(const Found& found, int64_t sentence, int64_t beam) {
  const int64_t row = sentence * found.lengths.dim(1) + beam, time = found.ids.dim(2);
  const int64_t* ids = found.ids.data<int64_t>() + row * time;
  const int64_t length = found.lengths.values<int64_t>()[static_cast<size_t>(row)];
  for (int64_t i = length; i < time; ++i) CHECK(ids[i] == kEnd);
  return {ids, ids + length};
}

}  // namespace

TEST_CASE("a search with enough beams finds all sentences that exhaustive search finds, in order") {
  const Tensor table = table_of_logits();
  for (const double penalty : {0.0, 0.6, 1.0}) {
    CAPTURE(penalty);
    const int64_t beams = 120;  // 1 + 3 + 9 + 27 * 4 sentences, less one
    const Found found = search(table, {.beams = beams, .length_penalty = penalty});
    for (int64_t b = 0; b < kBatch; ++b) {
      const auto wanted = all_sentences(table, b, penalty);
      REQUIRE(wanted.size() == 121);
      for (int64_t i = 0; i < beams; ++i) {
        CAPTURE(b);
        CAPTURE(i);
        CHECK(ids_of(found, b, i) == wanted[static_cast<size_t>(i)].ids);
        CHECK(found.scores.values<float>()[static_cast<size_t>(b * beams + i)] ==
              doctest::Approx(wanted[static_cast<size_t>(i)].score).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("one beam takes the likeliest token at each step") {
  const Tensor table = table_of_logits();
  const Found found = search(table, {.beams = 1});
  for (int64_t b = 0; b < kBatch; ++b) {
    std::vector<int64_t> wanted;
    double sum = 0;
    for (int64_t step = 0, last = kBegin; step < kSteps && last != kEnd; ++step) {
      const double* row = row_at(table, b, step, last);
      last = std::max_element(row, row + kClasses) - row;
      sum += log_probability(row, last);
      wanted.push_back(last);
    }
    CHECK(ids_of(found, b, 0) == wanted);
    CHECK(found.scores.values<float>()[static_cast<size_t>(b)] ==
          doctest::Approx(sum).epsilon(1e-5));
  }
}

TEST_CASE("more beams never have a worse best sentence here, and few find less than all") {
  const Tensor table = table_of_logits();
  double before = -INFINITY;
  for (const int64_t beams : {1, 2, 3, 120}) {
    const Found found = search(table, {.beams = beams});
    double sum = 0;
    for (int64_t b = 0; b < kBatch; ++b)
      sum += found.scores.values<float>()[static_cast<size_t>(b * beams)];
    CHECK(sum >= before);
    before = sum;
  }
}

TEST_CASE("a search ends when all beams have ended, and keeps beams apart that cannot be") {
  Tensor table = table_of_logits();
  for (int64_t i = 0; i < table.size(); ++i)
    table.mutable_data<double>()[i] = i % kClasses == kEnd ? 0 : -INFINITY;
  const Found found = search(table, {.beams = 2});
  CHECK(found.ids.shape() == Shape{kBatch, 2, 1});
  CHECK(ids_of(found, 2, 0) == std::vector<int64_t>{kEnd});
  CHECK(found.scores.values<float>()[0] == 0);
  CHECK(found.scores.values<float>()[1] == -INFINITY);
}

TEST_CASE("a state may grow along a size that is said to change") {
  Graph graph;
  const Output first = placeholder(graph, DType::f32, {-1, 0});
  const nn::Beams beams = nn::beam_search(
      [&](Output last, const std::vector<Output>& states) {
        // The sum of all tokens so far decides: 2, then 3, then the end.
        const Output seen = concat({states[0], expand_dims(cast(last, DType::f32), 1)}, 1);
        const Output sum = expand_dims(reduce_sum(seen, {1}), 1);
        const Output wanted = where(sum < 2.0, 2.0, where(sum < 5.0, ones_like(sum) * 3.0, 1.0));
        const Output classes = expand_dims(range(graph, 0, 4, 1, DType::f32), 0);
        return nn::Decoded{square(classes - wanted) * -9.0, {seen}};
      },
      {first}, {.beams = 3, .length_max = 9, .begin = 0, .end = 1, .shapes = {{-1, -1}}});
  Session session = Session::local(graph);
  const Tensor ids = session.run({beams.ids}, {{first, Tensor::zeros(DType::f32, {2, 0})}})[0];
  CHECK(std::vector<int64_t>(ids.data<int64_t>(), ids.data<int64_t>() + 3) ==
        std::vector<int64_t>{2, 3, 1});
}

TEST_CASE("a search refuses what does not fit") {
  Graph graph;
  const Output state = placeholder(graph, DType::f32, {-1, 5});
  const nn::Decoder good = [&](Output, const std::vector<Output>& states) {
    return nn::Decoded{states[0], states};
  };
  check_invalid([&] { nn::beam_search(good, {}); }, "at least one state");
  check_invalid([&] { nn::beam_search(good, {state}, {.beams = 0}); }, "at least 1 beam");
  check_invalid([&] { nn::beam_search(good, {state}, {.length_max = 0}); }, "length_max of 0");
  check_invalid([&] { nn::beam_search(good, {state}, {.length_penalty = -1}); },
                "length_penalty from 0");
  check_invalid([&] { nn::beam_search(good, {state}, {.end = 5}); }, "end 5 is none of 5 classes");
  check_invalid(
      [&] {
        nn::beam_search(good, {state}, {.shapes = {{-1, 5}, {-1}}});
      },
      "2 shapes for 1 states");
  check_invalid(
      [&] {
        nn::beam_search(
            [&](Output ids, const std::vector<Output>& states) {
              return nn::Decoded{ids, states};
            },
            {state});
      },
      "wants logits of floats, [rows, classes]", "got i64[");
  check_invalid(
      [&] {
        nn::beam_search(
            [&](Output, const std::vector<Output>& states) {
              return nn::Decoded{states[0], {}};
            },
            {state});
      },
      "as many states from the decoder as it got, 1, got 0");
}

}  // namespace troupe
