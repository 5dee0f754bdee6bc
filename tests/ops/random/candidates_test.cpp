// LogUniformCandidates and UnigramCandidates: their bits, their expected counts, their
// distributions.
#include <doctest/doctest.h>

#include <set>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs log_uniform(int64_t classes, int64_t count, bool unique, int64_t seed = 5) {
  return {{"classes", classes}, {"count", count},      {"unique", unique},
          {"seed", seed},       {"dtype", DType::f64}, {"key", std::string("l")}};
}

Attrs unigram(int64_t count, bool unique, double distortion = 1) {
  return {{"count", count},
          {"unique", unique},
          {"distortion", distortion},
          {"seed", int64_t{0}},
          {"key", std::string("w")}};
}

Attrs with(Attrs attrs, const char* name, Attr value) {
  attrs.insert_or_assign(name, std::move(value));
  return attrs;
}

// Expected values were computed independently, from the recipes in the files of the ops.

OpCases log_uniform_cases() {
  return {
      .values = {{.name = "unique: seven draws for four classes",
                  .op = "LogUniformCandidates",
                  .inputs = {i32(matrix({{0}, {9}}))},
                  .attrs = log_uniform(10, 4, true),
                  .expected = {i64(vector({3, 0, 2, 1})),
                               matrix({{0.9082069054673225}, {0.24716753330873703}}),
                               vector({0.49527327338222377, 0.9082069054673225, 0.591235786404671,
                                       0.7265548174419756})}},
                 {.name = "not unique",
                  .op = "LogUniformCandidates",
                  .inputs = {i64(vector({0, 9}))},
                  .attrs = log_uniform(10, 5, false),
                  .expected = {i64(vector({3, 3, 0, 3, 2})),
                               vector({1.4453241315894392, 0.19873716105436254}),
                               vector({0.4652904441773196, 0.4652904441773196, 1.4453241315894392,
                                       0.4652904441773196, 0.5998637132222474})}},
                 {.name = "the only class",
                  .op = "LogUniformCandidates",
                  .inputs = {i64(scalar(0))},
                  .attrs = log_uniform(1, 1, true),
                  .expected = {i64(vector({0})), scalar(1), vector({1})}},
                 {.name = "no candidates, no labels",
                  .op = "LogUniformCandidates",
                  .inputs = {zeros({0, 1}, DType::i64)},
                  .attrs = log_uniform(5, 0, true),
                  .expected = {zeros({0}, DType::i64), zeros({0, 1}), zeros({0})}}},
      .errors = {{.op = "LogUniformCandidates",
                  .inputs = {i64(vector({0}))},
                  .attrs = log_uniform(3, 4, true),
                  .message = "cannot draw 4 unique candidates of 3 classes; ask for fewer"},
                 {.op = "LogUniformCandidates",
                  .inputs = {i64(vector({0}))},
                  .attrs = log_uniform(0, 0, true),
                  .message = "wants a number of classes from 1 to 2^50, got 0"},
                 {.op = "LogUniformCandidates",
                  .inputs = {i64(vector({0}))},
                  .attrs = log_uniform(3, -1, false),
                  .message = "wants a count of at least 0 candidates, got -1"},
                 {.op = "LogUniformCandidates",
                  .inputs = {vector({0})},
                  .attrs = log_uniform(3, 1, false),
                  .message = "wants indices of i32 or i64, got f64; cast them"},
                 {.op = "LogUniformCandidates",
                  .inputs = {i64(vector({0}))},
                  .attrs = with(log_uniform(3, 1, false), "dtype", DType::i32),
                  .message = "expected counts are f32 or f64, not i32"},
                 {.op = "LogUniformCandidates",
                  .inputs = {i64(vector({0}))},
                  .attrs = with(log_uniform(3, 1, false), "replica", int64_t{-1}),
                  .message = "wants a replica from 0 to 65535, got -1"},
                 {.op = "LogUniformCandidates",
                  .inputs = {i64(vector({3}))},
                  .attrs = log_uniform(3, 1, false),
                  .message = "index 3 (number 0 of 1) is not in [0, 3)",
                  .when_run = true}}};
}
const ListedCases listed_log_uniform(log_uniform_cases);

OpCases unigram_cases() {
  const Tensor weights = vector({1, 2, 0, 5}), labels = i64(vector({3, 2, 0}));
  return {
      .values = {{.name = "unique: six draws for three classes",
                  .op = "UnigramCandidates",
                  .inputs = {labels, weights},
                  .attrs = unigram(3, true),
                  .expected = {i64(vector({3, 1, 0})),
                               vector({0.9972190856933594, 0, 0.5512046813964844}),
                               vector({0.9972190856933594, 0.822021484375, 0.5512046813964844})}},
                 {.name = "not unique, distorted",
                  .op = "UnigramCandidates",
                  .inputs = {i32(labels), weights},
                  .attrs = unigram(5, false, 0.75),
                  .expected = {i64(vector({3, 1, 3, 3, 3})),
                               vector({2.7746283770818874, 0, 0.8298074324022429}),
                               vector({2.7746283770818874, 1.39556419051587, 2.7746283770818874,
                                       2.7746283770818874, 2.7746283770818874})}},
                 {.name = "the only class",
                  .op = "UnigramCandidates",
                  .inputs = {i64(vector({0})), vector({3})},
                  .attrs = unigram(1, true),
                  .expected = {i64(vector({0})), vector({1}), vector({1})}},
                 {.name = "no candidates of no classes",
                  .op = "UnigramCandidates",
                  .inputs = {zeros({0}, DType::i64), zeros({0})},
                  .attrs = unigram(0, true),
                  .expected = {zeros({0}, DType::i64), zeros({0}), zeros({0})}}},
      .errors = {{.op = "UnigramCandidates",
                  .inputs = {labels, matrix({{1, 2}})},
                  .attrs = unigram(1, true),
                  .message = "wants weights [classes], got ["},
                 {.op = "UnigramCandidates",
                  .inputs = {labels, i32(vector({1, 2}))},
                  .attrs = unigram(1, true),
                  .message = "wants weights of f32 or f64, got i32; cast them"},
                 {.op = "UnigramCandidates",
                  .inputs = {weights, weights},
                  .attrs = unigram(1, true),
                  .message = "wants indices of i32 or i64, got f64"},
                 {.op = "UnigramCandidates",
                  .inputs = {labels, weights},
                  .attrs = unigram(-1, true),
                  .message = "wants a count of at least 0 candidates, got -1"},
                 {.op = "UnigramCandidates",
                  .inputs = {labels, weights},
                  .attrs = unigram(4, true),
                  .message = "cannot draw 4 unique candidates of 3 classes",
                  .when_run = true},
                 {.op = "UnigramCandidates",
                  .inputs = {labels, zeros({4})},
                  .attrs = unigram(1, false),
                  .message = "cannot draw 1 unique candidates of 0 classes",
                  .when_run = true},
                 {.op = "UnigramCandidates",
                  .inputs = {labels, vector({1, -2, 0, 1})},
                  .attrs = unigram(1, true),
                  .message = "wants finite weights of at least 0, got -2 (number 1 of 4)",
                  .when_run = true},
                 {.op = "UnigramCandidates",
                  .inputs = {labels, vector({1, 1e200, 0, 1})},
                  .attrs = unigram(1, true, 2),
                  .message = "the weights, to the power of 2, add up to inf",
                  .when_run = true},
                 {.op = "UnigramCandidates",
                  .inputs = {i64(vector({4})), weights},
                  .attrs = unigram(1, true),
                  .message = "index 4 (number 0 of 1) is not in [0, 4)",
                  .when_run = true}}};
}
const ListedCases listed_unigram(unigram_cases);

}  // namespace

TEST_CASE("LogUniformCandidates draws the classes its recipe says") { check(log_uniform_cases()); }
TEST_CASE("UnigramCandidates draws the classes its recipe says") { check(unigram_cases()); }

TEST_CASE("candidates that may repeat come as often as expected") {
  Graph graph;
  const Output all = constant(graph, i64(iota({5})));
  const CandidateOptions options = {.unique = false, .seed = 42};
  const Output weights = constant(graph, vector({4, 0, 1, 3, 2}));
  for (const Candidates& c : {log_uniform_candidates(all, 5, 100000, options, DType::f64),
                              unigram_candidates(all, weights, 100000, options)}) {
    const auto got = evaluate(graph, {bincount(c.ids, 5), c.true_expected});
    for (size_t k = 0; k < 5; ++k) {
      const double expected = got[1].values<double>()[k];
      CHECK(std::abs(static_cast<double>(got[0].values<int64_t>()[k]) - expected) <=
            4 * std::sqrt(expected));
    }
  }
}

TEST_CASE("unique candidates are different, and each is there about as often as expected") {
  Graph graph;
  const Output all = constant(graph, i64(iota({8})));
  const Candidates c = log_uniform_candidates(all, 8, 4, {.seed = 42}, DType::f64);
  std::vector<double> seen(8), expected(8);
  const int64_t steps = 4000;
  for (int64_t step = 0; step < steps; ++step) {
    const auto got = evaluate(graph, {c.ids, c.true_expected}, {}, {.step = step});
    const auto ids = got[0].values<int64_t>();
    CHECK(std::set<int64_t>(ids.begin(), ids.end()).size() == 4);
    for (const int64_t id : ids) seen[static_cast<size_t>(id)] += 1;
    for (size_t k = 0; k < 8; ++k) expected[k] += got[1].values<double>()[k];
  }
  // The expected count is an estimate from the number of draws, good to a few hundredths.
  for (size_t k = 0; k < 8; ++k)
    CHECK(std::abs(seen[k] - expected[k]) / static_cast<double>(steps) < 0.05);
}

}  // namespace troupe
