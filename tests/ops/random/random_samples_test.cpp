// RandomNormal, RandomInt, RandomPermutation, Bernoulli, Categorical, RandomGamma: their bits,
// their ranges, their distributions. Seeds are fixed, so a passing test always passes; bounds are
// at least four standard deviations.

#include <algorithm>
#include <map>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs key(int64_t seed, const char* name, Attrs attrs = {}) {
  attrs.emplace("seed", seed);
  attrs.emplace("key", std::string(name));
  return attrs;
}

Attrs drawn(Shape shape, DType dtype, Attrs attrs) {
  attrs.emplace("shape", shape);
  attrs.emplace("dtype", dtype);
  return attrs;
}

Attrs replica(Attrs attrs, int64_t replica) {
  attrs.insert_or_assign("replica", replica);
  return attrs;
}

// Expected bits were computed independently, from the recipes in the files of the ops.

const Table normal_table("RandomNormal draws the bits its recipe says", [] {
  const auto normal = [](Shape shape, DType dtype, double mean = 0, double stddev = 1) {
    return key(11, "n", drawn(shape, dtype, {{"mean", mean}, {"stddev", stddev}}));
  };
  return table_of(
      "RandomNormal",
      {Case("f64; the second number is the third attempt", {},
            {matrix({{-0.9345054405027686, -1.233184211066202},
                     {0.30137219385511743, -0.3086224299146927}})},
            normal({2, 2}, DType::f64))
           .within(1e-15),
       Case("f32 rounds the same numbers", {},
            {f32(vector({-0.9345054405027686, -1.233184211066202}))}, normal({2}, DType::f32))
           .within(0),
       Case("mean and deviation", {}, {scalar(10 - 0.5 * 0.9345054405027686)},
            normal({}, DType::f64, 10, 0.5)),
       Case("no deviation", {}, {f32(vector({3, 3}))}, normal({2}, DType::f32, 3, 0)),
       Case("empty", {}, {zeros({0, 4}, DType::f32)}, normal({0, 4}, DType::f32))},
      {Refused({}, "wants a shape without -1, got [-1]", normal({-1}, DType::f32)),
       Refused({}, "wants a mean and a stddev of at least 0", normal({2}, DType::f32, 0, -1)),
       Refused({}, "are finite as f32, got 0 and 1e+38", normal({2}, DType::f32, 0, 1e38)),
       Refused({}, "are finite as f64, got nan and 1", normal({2}, DType::f64, NAN, 1)),
       Refused({}, "has no kernel for i32; cast to one of f32, f64", normal({2}, DType::i32)),
       Refused({}, "wants a replica from 0 to 65535, got 65536",
               replica(normal({2}, DType::f32), 65536))});
});

const Table int_table("RandomInt draws the bits its recipe says", [] {
  const auto ints = [](Shape shape, DType dtype, int64_t low, int64_t high) {
    return key(4, "r", drawn(shape, dtype, {{"low", low}, {"high", high}}));
  };
  return table_of(
      "RandomInt",
      {Case("i64", {}, {i64(matrix({{4, -2, 1, 5}, {3, -3, 6, 1}}))},
            ints({2, 4}, DType::i64, -3, 7)),
       Case("i32", {}, {i32(vector({4, -2, 1}))}, ints({3}, DType::i32, -3, 7)),
       Case("nearly all i64", {},
            {Tensor::of<int64_t>({5194925586199363163, -6306017608113826709, -983321562089404068},
                                 {3})},
            ints({3}, DType::i64, INT64_MIN, INT64_MAX)),
       Case("one number", {}, {i32(vector({2147483647, 2147483647}))},
            ints({2}, DType::i32, 2147483647, 2147483648)),
       Case("empty", {}, {zeros({0}, DType::i64)}, ints({0}, DType::i64, 0, 1))},
      {Refused({},
               "wants low < high whose numbers from low to high - 1 are i64, got "
               "3 and 3",
               ints({2}, DType::i64, 3, 3)),
       Refused({}, "are i32, got 0 and 2147483649", ints({2}, DType::i32, 0, 2147483649)),
       Refused({}, "has no kernel for f32; cast to one of i64, i32", ints({2}, DType::f32, 0, 2)),
       Refused({}, "wants a shape without -1, got [-1]", ints({-1}, DType::i64, 0, 2))});
});

const Table permutation_table("RandomPermutation draws the order its recipe says", [] {
  return table_of(
      "RandomPermutation",
      {Case("of six rows", {zeros({6, 2})}, {i64(vector({4, 2, 3, 1, 5, 0}))}, key(2, "p")),
       Case("of one", {booleans(vector({0}))}, {i64(vector({0}))}, key(2, "p")),
       Case("of none", {zeros({0, 2})}, {zeros({0}, DType::i64)}, key(2, "p"))},
      {Refused({scalar(1)}, "wants rows to put in an order, got a scalar", key(2, "p"))});
});

const Table bernoulli_table("Bernoulli draws the bits its recipe says", [] {
  // The numbers that p is compared with: 0.663, 0.188, 0.154, 0.727, 0.562, 0.634.
  return table_of(
      "Bernoulli",
      {Case("a matrix", {matrix({{0.7, 0.15, 0.16}, {0.72, 0.57, 0.63}})},
            {matrix({{1, 0, 1}, {0, 1, 0}})}, key(3, "b")),
       Case("never and always", {vector({0, 1, 0, 1, 0, 1})}, {vector({0, 1, 0, 1, 0, 1})},
            key(3, "b")),
       {.name = "a scalar",
        .op = "Bernoulli",
        .inputs = {scalar(0.6630215343892754)},  // the number itself: not less
        .attrs = key(3, "b"),
        .expected = {scalar(0)},
        .as_written = true},
       Case("empty", {zeros({0, 2})}, {zeros({0, 2})}, key(3, "b"))},
      {Refused({i32(vector({1}))}, "has no kernel for i32; cast to one of f32, f64"),
       Refused({vector({0.5, 1.5})}, "wants probabilities from 0 to 1, got 1.5 (number 1 of 2)")
           .in_step(),
       Refused({vector({NAN})}, "wants probabilities from 0 to 1, got nan").in_step(),
       Refused({vector({1})}, "wants a replica from 0 to 65535, got -1", replica({}, -1))});
});

const Table categorical_table("Categorical draws the classes its recipe says", [] {
  const auto count = [](int64_t n) { return key(3, "c", {{"count", n}}); };
  return table_of(
      "Categorical",
      {Case("three rows", {matrix({{0, 1, 2}, {1, -INFINITY, 1}, {-3, 0, 0}})},
            {i64(matrix({{2, 1, 2, 1, 2, 1}, {2, 0, 0, 2, 0, 0}, {2, 2, 2, 1, 2, 2}}))}, count(6)),
       Case("one class, large and small", {matrix({{-1e30}, {1e30}})},
            {i64(matrix({{0, 0}, {0, 0}}))}, count(2)),
       Case("no draws", {zeros({2, 0})}, {zeros({2, 0}, DType::i64)}, count(0)),
       Case("no rows", {zeros({0, 2})}, {zeros({0, 3}, DType::i64)}, count(3))},
      {Refused({zeros({3})}, "wants logits [batch, classes], got [", count(6)),
       Refused({zeros({1, 3})}, "wants a count of at least 0 draws for a row, got -1", count(-1)),
       Refused({i32(zeros({1, 3}))}, "has no kernel for i32; cast to one of f32, f64", count(1)),
       Refused({matrix({{0, 1}, {NAN, 1}})},
               "row 1 is no distribution over its 2 classes: it wants a finite logit", count(1))
           .in_step(),
       Refused({matrix({{INFINITY, 1}})}, "row 0 is no distribution", count(1)).in_step(),
       Refused({matrix({{-INFINITY, -INFINITY}})}, "row 0 is no distribution", count(1)).in_step(),
       Refused({zeros({2, 0})}, "row 0 is no distribution over its 0 classes", count(1))
           .in_step()});
});

const Table gamma_table("RandomGamma draws the bits its recipe says", [] {
  return table_of(
      "RandomGamma",
      {Case("second attempts come first", {matrix({{0.5, 1}, {2.5, 10}})},
            {matrix({{1.2884357109222824, 0.059760861299095455},
                     {2.3018133011392856, 12.997193600259312}})},
            key(252, "g")),
       Case("so small that nothing is left of it", {vector({1e-5})}, {vector({0})}, key(252, "g")),
       Case("empty", {zeros({0})}, {zeros({0})}, key(252, "g"))},
      {Refused({vector({1, 0})}, "wants positive, finite shapes alpha, got 0 (number 1 of 2)")
           .in_step(),
       Refused({vector({INFINITY})}, "wants positive, finite shapes alpha, got inf").in_step(),
       Refused({i64(vector({1}))}, "has no kernel for i64; cast to one of f32, f64")});
});

struct SampleMoments {
  double mean = 0, variance = 0;
};

SampleMoments sample_moments(const Tensor& y) {
  SampleMoments m;
  const double n = static_cast<double>(y.size());
  for (const float v : y.values<float>()) m.mean += v / n;
  for (const float v : y.values<float>()) m.variance += (v - m.mean) * (v - m.mean) / n;
  return m;
}

// The share of the numbers for which `holds` is true.
template <class F>
double part(const Tensor& y, F holds) {
  const auto values = y.values<float>();
  return static_cast<double>(std::count_if(values.begin(), values.end(), holds)) /
         static_cast<double>(y.size());
}

}  // namespace

TEST_CASE("random samples are the same for a step and a replica, and others for others") {
  using Build = Output (*)(Graph&);
  const std::map<std::string, Build> builds = {
      {"normal", [](Graph& g) { return random_normal(g, {8}); }},
      {"int", [](Graph& g) { return random_int(g, {8}, 0, 1000); }},
      {"permutation", [](Graph& g) { return random_permutation(g, 16); }},
      {"bernoulli", [](Graph& g) { return bernoulli(fill(g, {64}, 0.5)); }},
      {"categorical",
       [](Graph& g) {
         return categorical(fill(g, {1, 8}, 0), 32);
       }},
      {"gamma", [](Graph& g) { return random_gamma(fill(g, {8}, 2)); }},
      {"log-uniform candidates",
       [](Graph& g) { return log_uniform_candidates(fill(g, {1}, 0, DType::i64), 1000, 20).ids; }},
      {"unigram candidates", [](Graph& g) {
         return unigram_candidates(fill(g, {1}, 0, DType::i64), fill(g, {100}, 1), 20).ids;
       }}};
  for (const auto& entry : builds) {
    const auto& name = entry.first;
    const Build build = entry.second;
    CAPTURE(name);
    Graph graph;
    const Output a = build(graph), b = build(graph);
    const auto in_replica = [&] {
      const auto scope = graph.scope({.replica = 2});
      return build(graph);
    };
    const Tensor step5 = evaluate(a, {}, {.step = 5});
    CHECK(same_bits(step5, evaluate(a, {}, {.step = 5})));
    CHECK_FALSE(same_bits(step5, evaluate(a, {}, {.step = 6})));
    CHECK_FALSE(same_bits(step5, evaluate(b, {}, {.step = 5})));
    CHECK_FALSE(same_bits(evaluate(b), evaluate(in_replica())));
    Graph again;
    CHECK(same_bits(step5, evaluate(build(again), {}, {.step = 5})));
  }
}

TEST_CASE("normal numbers have the moments and the tails of a normal distribution") {
  Graph graph;
  const Tensor y = evaluate(random_normal(graph, {100000}, 0, 1, 42));
  const SampleMoments m = sample_moments(y);
  CHECK(std::abs(m.mean) < 0.013);
  CHECK(std::abs(m.variance - 1) < 0.018);
  CHECK(std::abs(part(y, [](float v) { return v < 0; }) - 0.5) < 0.0064);
  CHECK(std::abs(part(y, [](float v) { return std::abs(v) < 1; }) - 0.682689) < 0.0059);
  CHECK(std::abs(part(y, [](float v) { return std::abs(v) > 2; }) - 0.0455003) < 0.0027);
  CHECK(std::abs(part(y, [](float v) { return v > 3; }) - 0.00134990) < 0.00047);
}

TEST_CASE("whole numbers are drawn evenly") {
  Graph graph;
  const Output y = random_int(graph, {100000}, -5, 5, 42);
  const Tensor counts = evaluate(bincount(y + 5, 10));
  for (const int64_t count : counts.values<int64_t>()) CHECK(std::abs(count - 10000) < 400);
}

TEST_CASE("every order of three rows is as likely") {
  Graph graph;
  const Output y = random_permutation(graph, 3, 42);
  std::map<Ints, int> seen;
  for (int64_t step = 0; step < 6000; ++step) {
    const Tensor order = evaluate(y, {}, {.step = step});
    ++seen[{order.values<int64_t>().begin(), order.values<int64_t>().end()}];
  }
  CHECK(seen.size() == 6);
  for (const auto& [order, count] : seen) CHECK(std::abs(count - 1000) < 120);
}

TEST_CASE("shuffle keeps all rows and gives each its gradient") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {-1, 2});
  const Output y = shuffle(x);
  const Output weights = placeholder(graph, DType::f64, {-1, 2});
  const Output dx = gradients({y}, {x}, {weights})[0];
  const Tensor rows = iota({100, 2});
  // With the shuffled rows as dL/dy, dL/dx has the rows in their original order.
  const Tensor shuffled = evaluate(y, {{x, rows}}, {.step = 3});
  CHECK_FALSE(same_bits(shuffled, rows));
  CHECK(same_bits(evaluate(dx, {{x, rows}, {weights, shuffled}}, {.step = 3}), rows));
}

TEST_CASE("events come as often as their probabilities say") {
  Graph graph;
  const Tensor y = evaluate(bernoulli(fill(graph, {100000}, 0.3), 42));
  CHECK(std::abs(part(y, [](float v) { return v == 1; }) - 0.3) < 0.0058);
  CHECK(part(y, [](float v) { return v == 0 || v == 1; }) == 1);
}

TEST_CASE("classes come as often as their softmax says") {
  Graph graph;
  const Output logits =
      constant(graph, matrix({{std::log(1), std::log(2), -INFINITY, std::log(5)}}));
  const Tensor counts = evaluate(bincount(categorical(logits, 80000, 42), 4));
  CHECK(std::abs(counts.values<int64_t>()[0] - 10000) < 375);
  CHECK(std::abs(counts.values<int64_t>()[1] - 20000) < 490);
  CHECK(counts.values<int64_t>()[2] == 0);
  CHECK(std::abs(counts.values<int64_t>()[3] - 50000) < 550);
}

TEST_CASE("gamma numbers have mean and variance alpha, and as many below alpha as they should") {
  Graph graph;
  // P(y < alpha) is the regularised incomplete gamma function of (alpha, alpha).
  struct Row {
    double alpha, below;
  };
  for (const Row& row :
       {Row{0.5, 0.6826895}, {1.0, 0.6321206}, {3.0, 0.5768099}, {20.0, 0.5297427}}) {
    const double alpha = row.alpha;
    CAPTURE(alpha);
    const Tensor y = evaluate(random_gamma(fill(graph, {100000}, alpha), 42));
    const SampleMoments m = sample_moments(y);
    CHECK(part(y, [](float v) { return v >= 0; }) == 1);
    CHECK(std::abs(m.mean - alpha) < 4 * std::sqrt(alpha / 1e5));
    // The fourth moment about the mean is 3 * alpha^2 + 6 * alpha.
    CHECK(std::abs(m.variance - alpha) < 4 * std::sqrt((2 * alpha * alpha + 6 * alpha) / 1e5));
    CHECK(std::abs(part(y, [alpha](float v) { return v < alpha; }) - row.below) < 0.0064);
  }
}

}  // namespace troupe
