// TruncatedNormal: its bits, its range, its distribution.
#include "graph/base/philox.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(Shape shape, DType dtype, double mean = 0, double stddev = 1) {
  return {{"shape", shape},   {"dtype", dtype},     {"mean", mean},
          {"stddev", stddev}, {"seed", int64_t{1}}, {"key", std::string("n")}};
}

const Table table("TruncatedNormal draws the bits its recipe says", [] {
  // Computed independently, from the recipe in ops/random/normals.cpp; the second number
  // comes from the fifth attempt.
  return table_of(
      "TruncatedNormal",
      {Case("f64", {},
            {matrix({{-0.7160570294194666, -1.0589846822684588},
                     {-0.869359793983671, -1.2803053450635327}})},
            attrs({2, 2}, DType::f64))
           .within(0),
       Case("f32 rounds the same numbers", {}, {f32(vector({-0.7160570294194666}))},
            attrs({1}, DType::f32))
           .within(0),
       Case("mean and deviation", {}, {scalar(10 - 0.5 * 0.7160570294194666)},
            attrs({}, DType::f64, 10, 0.5)),
       Case("no deviation", {}, {f32(vector({3, 3}))}, attrs({2}, DType::f32, 3, 0)),
       Case("empty", {}, {zeros({0}, DType::f32)}, attrs({0}, DType::f32))},
      {Refused({}, "wants a shape without -1, got [2, -1]", attrs({2, -1}, DType::f32)),
       Refused({},
               "a stddev of at least 0 whose numbers, up to -2, are finite as "
               "f32, got 0 and -1",
               attrs({2}, DType::f32, 0, -1)),
       Refused({}, "are finite as f32, got 3e+38 and 1e+38", attrs({2}, DType::f32, 3e38, 1e38)),
       Refused({}, "are finite as f64, got 0 and 1e+308", attrs({2}, DType::f64, 0, 1e308)),
       Refused({}, "are finite as f64, got nan and 1", attrs({2}, DType::f64, NAN, 1)),
       Refused({}, "has no kernel for i64; cast to one of f32, f64", attrs({2}, DType::i64))});
});

}  // namespace

TEST_CASE("many truncated normal numbers are those of one attempt after the other") {
  constexpr int64_t kCount = 10'007;  // several jobs and a remainder
  Graph graph;
  const Tensor y =
      evaluate(graph.add({.op = "TruncatedNormal", .attrs = attrs({kCount}, DType::f64)}));
  const RandomStream random(1, "n", 0, 0);
  int64_t different = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    double z = 0;
    for (uint64_t block = static_cast<uint64_t>(i);; block += uint64_t{1} << 40) {
      const std::array<uint32_t, 4> words = random.block(block);
      z = 4 * unit_double(words[0], words[1]) - 2;
      if (unit_double(words[2], words[3]) < std::exp(-z * z / 2)) break;
    }
    different += y.data<double>()[i] != z;
  }
  CHECK(different == 0);
}

TEST_CASE("truncated normal numbers have the moments of a normal cut at two deviations") {
  Graph graph;
  const Tensor y = evaluate(truncated_normal(graph, {100000}, 0, 1, 42));
  double sum = 0, squares = 0;
  for (float v : y.values<float>()) {
    CHECK(std::abs(v) <= 2);
    sum += v;
    squares += v * v;
  }
  // The variance is 1 - 4 * pdf(2) / (cdf(2) - cdf(-2)) = 0.77374; 10^5 draws miss it by 0.003.
  CHECK(std::abs(sum / 1e5) < 0.012);
  CHECK(std::abs(squares / 1e5 - 0.77374) < 0.012);
}

}  // namespace troupe
