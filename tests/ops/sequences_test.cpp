// What holds for both recurrent layers: cells, refusals at the line that called, and that oneDNN's
// steps agree with the loops. Their tables are in lstm_test.cpp and gru_test.cpp.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"
#include "troupe/ops/sequences.hpp"

namespace troupe {
namespace {

// Both layers with their gradients, of sizes that are cut into jobs, some rows over.
std::vector<Output> large_layers(Graph& g, DType dtype) {
  const auto input = [&](const Shape& shape, double seed) {
    return constant(g, converted(waves(shape, seed), dtype));
  };
  const Output x = input({6, 37, 24}, 0.1), h = input({37, 70}, 0.2), c = input({37, 70}, 0.3);
  Tensor lengths = Tensor::empty(DType::i64, {37});
  for (int64_t i = 0; i < 37; ++i) lengths.mutable_data<int64_t>()[i] = i % 7;
  const Output given = constant(g, lengths);
  const Output w4 = input({24, 280}, 0.4), u4 = input({70, 280}, 0.5), b4 = input({280}, 0.6);
  const Output w3 = input({24, 210}, 0.7), u3 = input({70, 210}, 0.8), b3 = input({210}, 0.9);
  const Lstm one = lstm(x, h, c, w4 * 0.2, u4 * 0.2, b4, {.lengths = given, .reverse = true});
  const Gru two = gru(x, h, w3 * 0.2, u3 * 0.2, b3, b3);
  const Gru three = gru(x, h, w3 * 0.2, u3 * 0.2, b3, b3, {.lengths = given, .reset_after = false});
  std::vector<Output> all = {one.y, one.h, one.c, two.y, two.h, three.y, three.h};
  const auto slopes = gradients(all, {x, h, c, w4, u4, b4, w3, u3, b3});
  all.insert(all.end(), slopes.begin(), slopes.end());
  return all;
}

}  // namespace

TEST_CASE("a cell is one step of the layer") {
  Graph g;
  const auto input = [&](const Shape& shape, double seed) {
    return constant(g, waves(shape, seed));
  };
  const Output x = input({4, 3}, 0.1), h = input({4, 5}, 0.2), c = input({4, 5}, 0.3);
  const Output w = input({3, 20}, 0.4), u = input({5, 20}, 0.5), b = input({20}, 0.6);
  const Output w3 = input({3, 15}, 0.4), u3 = input({5, 15}, 0.5), b3 = input({15}, 0.6);
  const Output steps = expand_dims(x, 0);
  const LstmCell cell = lstm_cell(x, h, c, w, u, b, 1);
  const Lstm layer = lstm(steps, h, c, w, u, b, {.forget_bias = 1});
  const Output before = gru_cell(x, h, w3, u3, b3, b3, false);
  const Gru other = gru(steps, h, w3, u3, b3, b3, {.reset_after = false});
  const auto got = evaluate(g, {cell.h, cell.c, before, layer.h, layer.c, other.h, layer.y});
  for (size_t i = 0; i < 3; ++i) CHECK(same_bits(got[i], got[i + 3]));
  CHECK(same_bits(got[6].reshaped({4, 5}), got[3]));
}

TEST_CASE("layers say what does not fit at the line that called them") {
  Graph g;
  const Output x = constant(g, zeros({2, 3})), w = constant(g, zeros({3, 4}));
  const Output h = constant(g, zeros({2, 1})), b = constant(g, zeros({4}));
  CHECK_THROWS_WITH_AS(lstm(x, h, h, w, w, b), doctest::Contains("wants x [time, batch, n]"),
                       Error);
  CHECK_THROWS_WITH_AS(gru(x, h, w, w, b, b), doctest::Contains("wants x [time, batch, n]"), Error);
  const Output steps = constant(g, zeros({1, 2, 3}));
  CHECK_THROWS_WITH_AS(lstm_cell(steps, h, h, w, w, b), doctest::Contains("wants x [batch, n]"),
                       Error);
  CHECK_THROWS_WITH_AS(gru_cell(steps, h, w, w, b, b), doctest::Contains("wants x [batch, n]"),
                       Error);
  CHECK_THROWS_WITH_AS(lstm({}, h, h, w, w, b), doctest::Contains("undefined Outputs"), Error);
  CHECK_THROWS_WITH_AS(lstm(steps, h, h, w, w, b), doctest::Contains("sequences_test.cpp"), Error);
}

TEST_CASE("oneDNN's steps give what the loops give") {
  Graph fast, slow;
  const auto single = evaluate(fast, large_layers(fast, DType::f32));
  const auto twice = evaluate(slow, large_layers(slow, DType::f64));
  for (size_t i = 0; i < single.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(single[i], f32(twice[i]), 2e-4).value_or("") == "");
  }
}

}  // namespace troupe
