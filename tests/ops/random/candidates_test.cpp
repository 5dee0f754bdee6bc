// LogUniformCandidates and UnigramCandidates: their bits, their expected counts, their
// distributions.

#include <set>

#include "graph/op.hpp"
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

const Table log_uniform_table("LogUniformCandidates draws the classes its recipe says", [] {
  return table_of(
      "LogUniformCandidates",
      {Case("unique: seven draws for four classes", {i32(matrix({{0}, {9}}))},
            {i64(vector({3, 0, 2, 1})), matrix({{0.9082069054673225}, {0.24716753330873703}}),
             vector(
                 {0.49527327338222377, 0.9082069054673225, 0.591235786404671, 0.7265548174419756})},
            log_uniform(10, 4, true)),
       Case("not unique", {i64(vector({0, 9}))},
            {i64(vector({3, 3, 0, 3, 2})), vector({1.4453241315894392, 0.19873716105436254}),
             vector({0.4652904441773196, 0.4652904441773196, 1.4453241315894392, 0.4652904441773196,
                     0.5998637132222474})},
            log_uniform(10, 5, false)),
       Case("the only class", {i64(scalar(0))}, {i64(vector({0})), scalar(1), vector({1})},
            log_uniform(1, 1, true)),
       Case("no candidates, no labels", {zeros({0, 1}, DType::i64)},
            {zeros({0}, DType::i64), zeros({0, 1}), zeros({0})}, log_uniform(5, 0, true))},
      {Refused({i64(vector({0}))}, "cannot draw 4 unique candidates of 3 classes; ask for fewer",
               log_uniform(3, 4, true)),
       Refused({i64(vector({0}))}, "wants a number of classes from 1 to 2^50, got 0",
               log_uniform(0, 0, true)),
       Refused({i64(vector({0}))}, "wants a count of at least 0 candidates, got -1",
               log_uniform(3, -1, false)),
       Refused({vector({0})}, "wants indices of i32 or i64, got f64; cast them",
               log_uniform(3, 1, false)),
       Refused({i64(vector({0}))}, "expected counts are f32 or f64, not i32",
               with(log_uniform(3, 1, false), "dtype", DType::i32)),
       Refused({i64(vector({0}))}, "wants a replica from 0 to 65535, got -1",
               with(log_uniform(3, 1, false), "replica", int64_t{-1})),
       Refused({i64(vector({3}))}, "index 3 (number 0 of 1) is not in [0, 3)",
               log_uniform(3, 1, false))
           .in_step()});
});

const Table unigram_table("UnigramCandidates draws the classes its recipe says", [] {
  const Tensor weights = vector({1, 2, 0, 5}), labels = i64(vector({3, 2, 0}));
  return table_of(
      "UnigramCandidates",
      {Case("unique: six draws for three classes", {labels, weights},
            {i64(vector({3, 1, 0})), vector({0.9972190856933594, 0, 0.5512046813964844}),
             vector({0.9972190856933594, 0.822021484375, 0.5512046813964844})},
            unigram(3, true)),
       Case("not unique, distorted", {i32(labels), weights},
            {i64(vector({3, 1, 3, 3, 3})), vector({2.7746283770818874, 0, 0.8298074324022429}),
             vector({2.7746283770818874, 1.39556419051587, 2.7746283770818874, 2.7746283770818874,
                     2.7746283770818874})},
            unigram(5, false, 0.75)),
       Case("twelve draws for six classes", {i64(vector({1, 5})), vector({4, 0, 1, 3, 2, 6})},
            {i64(vector({4, 5, 4, 3, 3, 0, 0, 3, 2, 3, 0, 2})), vector({0, 4.5}),
             vector({1.5, 4.5, 1.5, 2.25, 2.25, 3.0, 3.0, 2.25, 0.75, 2.25, 3.0, 0.75})},
            unigram(12, false)),
       Case("the only class", {i64(vector({0})), vector({3})},
            {i64(vector({0})), vector({1}), vector({1})}, unigram(1, true)),
       Case("no candidates of no classes", {zeros({0}, DType::i64), zeros({0})},
            {zeros({0}, DType::i64), zeros({0}), zeros({0})}, unigram(0, true))},
      {Refused({labels, matrix({{1, 2}})}, "wants weights [classes], got [", unigram(1, true)),
       Refused({labels, i32(vector({1, 2}))}, "wants weights of f32 or f64, got i32; cast them",
               unigram(1, true)),
       Refused({weights, weights}, "wants indices of i32 or i64, got f64", unigram(1, true)),
       Refused({labels, weights}, "wants a count of at least 0 candidates, got -1",
               unigram(-1, true)),
       Refused({labels, weights}, "cannot draw 4 unique candidates of 3 classes", unigram(4, true))
           .in_step(),
       Refused({labels, zeros({4})}, "cannot draw 1 unique candidates of 0 classes",
               unigram(1, false))
           .in_step(),
       Refused({labels, vector({1, -2, 0, 1})},
               "wants finite weights of at least 0, got -2 (number 1 of 4)", unigram(1, true))
           .in_step(),
       Refused({labels, vector({1, 1e200, 0, 1})}, "the weights, to the power of 2, add up to inf",
               unigram(1, true, 2))
           .in_step(),
       Refused({i64(vector({4})), weights}, "index 4 (number 0 of 1) is not in [0, 4)",
               unigram(1, true))
           .in_step()});
});

}  // namespace

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

TEST_CASE("the table of a node is that of its weights, in each step") {
  Graph graph;
  const Output weights = placeholder(graph, DType::f64, {-1});
  const Output labels = placeholder(graph, DType::i64, {1});
  const Candidates c = unigram_candidates(labels, weights, 200, {.unique = false, .seed = 42});
  const Node& node = graph.node(c.ids.node);
  const NodeView view = NodeView::make(node, *find_kernel(node, DeviceKind::cpu));
  HeapMemory memory;
  const auto draw = [&](const Tensor& of) {
    return run_kernel(view, {i64(vector({0})), of}, memory, {});
  };
  const Tensor many = vector({1, 2, 3, 4}), one = vector({0, 0, 0, 1}), longer = iota({9}, 1);
  const auto first = draw(many), second = draw(one), third = draw(longer);
  CHECK(second[1].item<double>() == 0);
  CHECK(third[1].item<double>() == 200 * (1. / 45));
  for (const int64_t id : second[0].values<int64_t>()) CHECK(id == 3);
  CHECK(same_bits(draw(many)[0], first[0]));
  CHECK(same_bits(draw(converted(many, DType::f64))[0], first[0]));  // equal, elsewhere in memory
  CHECK_THROWS_WITH_AS(draw(vector({1, -1})), doctest::Contains("got -1 (number 1 of 2)"), Error);
  CHECK(same_bits(draw(longer)[0], third[0]));
}

TEST_CASE("a class without weight is never drawn, and unequal ones as often as expected") {
  std::vector<double> list;
  for (int k = 0; k < 1000; ++k) list.push_back(k % 3 == 0 ? 0 : 1000.0 / (k * k));
  Graph graph;
  const Output all = constant(graph, i64(iota({1000})));
  const Candidates c = unigram_candidates(all, constant(graph, Tensor::of<double>(list, {1000})),
                                          100000, {.unique = false, .seed = 1});
  const auto got = evaluate(graph, {bincount(c.ids, 1000), c.true_expected});
  for (size_t k = 0; k < 1000; ++k) {
    const double expected = got[1].values<double>()[k];
    const auto count = static_cast<double>(got[0].values<int64_t>()[k]);
    CAPTURE(k);
    if (k % 3 == 0) CHECK(count == 0);
    CHECK(std::abs(count - expected) <= 5 * std::sqrt(expected) + 3);
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
