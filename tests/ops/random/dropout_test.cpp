// Dropout: its mask, its scale, and the same mask in the gradient.
#include "graph/base/philox.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(double rate) {
  return {{"rate", rate}, {"seed", int64_t{3}}, {"key", std::string("mask")}};
}

const Table table("Dropout drops by its recipe and scales the rest", [] {
  return table_of(
      "Dropout",
      {Case("half: of these eight the seventh falls", {iota({8}, 1)},
            {vector({2, 4, 6, 8, 10, 12, 0, 16})}, attrs(0.5)),
       Case("a matrix has the mask of its elements in a row", {iota({2, 4}, 1)},
            {matrix({{2, 4, 6, 8}, {10, 12, 0, 16}})}, attrs(0.5)),
       Case("the second iteration of a loop has another mask", {iota({8}, 1), i64(scalar(1))},
            {vector({2, 0, 0, 0, 0, 12, 14, 16})}, attrs(0.5)),
       Case("rate 0 keeps everything", {vector({1, -2, 3, 4, 5})}, {vector({1, -2, 3, 4, 5})},
            attrs(0)),
       Case("a scalar", {scalar(3)}, {scalar(4)}, attrs(0.25)),
       Case("what falls is 0, even infinity", {full({8}, INFINITY)},
            {vector({INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, 0, INFINITY})},
            attrs(0.5))
           .rough(),
       Case("empty", {zeros({0, 3})}, {zeros({0, 3})}, attrs(0.5))},
      {Refused({vector({1}), vector({1})},
               "wants i64 scalars behind its other inputs, the iterations that "
               "it is in, got f64",
               attrs(0.5)),
       Refused({vector({1})}, "wants a rate in [0, 1), the part that is dropped, got 1", attrs(1)),
       Refused({vector({1})}, "wants a rate in [0, 1), the part that is dropped, got -0.1",
               attrs(-0.1)),
       Refused({i32(vector({1}))}, "has no kernel for i32; cast to one of f32, f64", attrs(0.5))});
});

}  // namespace

TEST_CASE("the gradient of dropout has the mask of its own node, in every step and replica") {
  Graph graph;
  const auto scope = graph.scope({.name = "tower", .replica = 5});
  const Output x = placeholder(graph, DType::f32, {1000});
  const Output y = dropout(x, 0.3);
  const Output dx = gradients({y}, {x})[0];
  CHECK(graph.node(y.node).attr<int64_t>("replica") == 5);
  const Tensor ones = f32(full({1000}, 1));
  for (int64_t step : {-1, 0, 1, 100}) {
    const auto got = evaluate(graph, {y, dx}, {{x, ones}}, {.step = step});
    CHECK(same_bits(got[0], got[1]));
  }
  CHECK_FALSE(
      same_bits(evaluate(y, {{x, ones}}, {.step = 1}), evaluate(y, {{x, ones}}, {.step = 2})));
}

TEST_CASE("a long tensor has the mask of its recipe, in each of its jobs and at its end") {
  constexpr int64_t kCount = 2 * 65536 + 259;
  const RandomStream stream(3, "mask", 4, 0);
  const auto wanted = static_cast<uint64_t>(0.3 * 0x1p32);
  for (const DType dtype : {DType::f32, DType::f64}) {
    Graph graph;
    const Output x = constant(graph, converted(iota({kCount}, 1), dtype));
    const Output y =
        graph.add({.op = "Dropout",
                   .inputs = {x},
                   .attrs = {{"rate", 0.3}, {"seed", int64_t{3}}, {"key", std::string("mask")}}},
                  Origin::here());
    const Tensor got = converted(evaluate(y, {}, {.step = 4}), DType::f64);
    int64_t wrong = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const bool kept =
          stream.block(static_cast<uint64_t>(i / 4))[static_cast<size_t>(i % 4)] >= wanted;
      const double number = static_cast<double>(i + 1);
      const double expected = !kept ? 0
                              : dtype == DType::f32
                                  ? static_cast<float>(number) / static_cast<float>(0.7)
                                  : number / 0.7;
      wrong += got.values<double>()[static_cast<size_t>(i)] != expected;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("dropout drops about the part that was asked for") {
  Graph graph;
  const Output y = dropout(constant(graph, f32(full({100000}, 1))), 0.2);
  int64_t dropped = 0;
  const Tensor value = evaluate(y);
  for (float v : value.values<float>()) dropped += v == 0;
  CHECK(std::abs(static_cast<double>(dropped) - 20000) < 640);  // five standard deviations
}

}  // namespace troupe
