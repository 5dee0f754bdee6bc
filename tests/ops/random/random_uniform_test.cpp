// RandomUniform: its bits, its range, its distribution.
#include "graph/base/philox.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(Shape shape, DType dtype, double low = 0, double high = 1) {
  return {{"shape", shape}, {"dtype", dtype},     {"low", low},
          {"high", high},   {"seed", int64_t{7}}, {"key", std::string("u")}};
}

Attrs with_replica(Attrs attrs, int64_t replica) {
  attrs.insert_or_assign("replica", replica);
  return attrs;
}

const Table table("RandomUniform draws the bits its recipe says", [] {
  // Computed independently, from the recipe in ops/random/random_uniform.cpp.
  return table_of(
      "RandomUniform",
      {Case("f32", {},
            {f32(values({2, 3}, {0.6137460470199585, 0.13604122400283813, 0.02939552068710327,
                                 0.051007211208343506, 0.292497456073761, 0.5801878571510315}))},
            attrs({2, 3}, DType::f32))
           .within(0),
       Case("f64", {}, {vector({0.13604125208541418, 0.05100722402087299, 0.5801879147283028})},
            attrs({3}, DType::f64))
           .within(0),
       Case("in an iteration of a loop", {i64(scalar(2))},
            {vector({0.33493128459776733, 0.8090489773411529, 0.5488726678615206})},
            attrs({3}, DType::f64))
           .within(0),
       Case("in an iteration of a loop in a loop", {i64(scalar(2)), i64(scalar(1))},
            {vector({0.5551525075156892, 0.47708957979075617, 0.13558843210078442})},
            attrs({3}, DType::f64))
           .within(0),
       Case("another range", {}, {vector({-1 + 4 * 0.13604125208541418})},
            attrs({1}, DType::f64, -1, 3)),
       Case("a scalar", {}, {scalar(0.13604125208541418)}, attrs({}, DType::f64)),
       Case("empty", {}, {zeros({0, 2}, DType::f32)}, attrs({0, 2}, DType::f32))},
      {Refused({i64(vector({2}))},
               "wants i64 scalars behind its other inputs, the iterations that "
               "it is in, got i64",
               attrs({3}, DType::f64)),
       Refused({i32(scalar(2))}, "got i32[]", attrs({3}, DType::f64)),
       Refused({}, "wants a shape without -1, got [-1]", attrs({-1}, DType::f32)),
       Refused({},
               "wants finite numbers low < high, which differ as f32 and whose "
               "distance is one, got 1 and 1",
               attrs({2}, DType::f32, 1, 1)),
       Refused({}, "got 1 and 1.0000000001", attrs({2}, DType::f32, 1, 1 + 1e-10)),
       Refused({}, "got 0 and 1e+39", attrs({2}, DType::f32, 0, 1e39)),
       Refused({}, "got -1e+308 and 1e+308", attrs({2}, DType::f64, -1e308, 1e308)),
       Refused({}, "has no kernel for i32; cast to one of f32, f64", attrs({2}, DType::i32)),
       Refused({}, "wants a replica from 0 to 65535, got 65536",
               with_replica(attrs({2}, DType::f32), 65536))});
});

}  // namespace

TEST_CASE("another step or replica draws other numbers, the same ones again") {
  Graph graph;
  const auto node = [&](int64_t replica) {
    return graph.add(
        {.op = "RandomUniform", .attrs = with_replica(attrs({2}, DType::f32), replica)});
  };
  const Tensor step5 = evaluate(node(3), {}, {.step = 5});
  CHECK(same_bits(step5, f32(vector({0.5021250247955322, 0.22034883499145508}))));
  CHECK(same_bits(step5, evaluate(node(3), {}, {.step = 5})));
  CHECK_FALSE(same_bits(step5, evaluate(node(3), {}, {.step = 6})));
  CHECK_FALSE(same_bits(step5, evaluate(node(2), {}, {.step = 5})));
}

TEST_CASE("two nodes draw different numbers unless they are given one key") {
  Graph graph;
  const Output a = random_uniform(graph, {8}), b = random_uniform(graph, {8});
  CHECK_FALSE(same_bits(evaluate(a), evaluate(b)));
}

TEST_CASE("uniform numbers fill their range evenly and stay below its end") {
  Graph graph;
  // One float apart: half of all draws would round up to `high`.
  const float high = std::nextafter(1.0f, 2.0f);
  const Tensor value = evaluate(random_uniform(graph, {1000}, 1, high));
  for (float v : value.values<float>()) CHECK(v == 1.0f);
  double sum = 0, squares = 0;
  const Tensor y = evaluate(random_uniform(graph, {100000}, -1, 1));
  for (float v : y.values<float>()) {
    CHECK((v >= -1 && v < 1));
    sum += v;
    squares += v * v;
  }
  // Means of 10^5 draws: their standard deviations are 0.0018 and 0.00094.
  CHECK(std::abs(sum / 1e5) < 0.008);
  CHECK(std::abs(squares / 1e5 - 1.0 / 3) < 0.004);
}

TEST_CASE("a long tensor has the numbers of its recipe, in each of its jobs and at its end") {
  constexpr int64_t kCount = 2 * 65536 + 259;
  const RandomStream stream(7, "u", 0, 0);
  for (const DType dtype : {DType::f32, DType::f64}) {
    Graph graph;
    const Output y =
        graph.add({.op = "RandomUniform", .attrs = attrs({kCount}, dtype, -1, 3)}, Origin::here());
    const Tensor got = evaluate(y);
    int64_t wrong = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const auto at = static_cast<size_t>(i);
      if (dtype == DType::f32) {
        const uint32_t word = stream.block(at / 4)[at % 4];
        wrong += got.values<float>()[at] != -1 + unit_float(word) * 4;
      } else {
        const auto words = stream.block(at / 2);
        const double unit = unit_double(words[at % 2 * 2], words[at % 2 * 2 + 1]);
        wrong += got.values<double>()[at] != -1 + unit * 4;
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace troupe
