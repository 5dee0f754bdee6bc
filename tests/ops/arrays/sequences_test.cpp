// Tests of both recurrent layers: cells, refusals at the calling line, and that oneDNN's steps
// agree with the loops. The tables are in lstm_test.cpp and gru_test.cpp.

#include "tests/support/op_cases.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

// Both layers with their gradients, in sizes that are cut into jobs with some rows left over.
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

TEST_CASE("what does not fit a recurrent layer is named as its caller knows it") {
  Graph g;
  const auto of = [&](const Shape& shape, DType dtype = DType::f32) {
    return placeholder(g, dtype, shape);
  };
  const Output x = of({-1, 2, 5}), h = of({2, 3}), row = of({2, 5});
  const auto refused = [](auto&& call, const std::string& function, const std::string& why) {
    const Refusal refusal = refusal_of(call);
    CHECK(refusal.code == Errc::invalid_argument);
    CHECK(refusal.text.starts_with(function + " made at " + __FILE__));
    CHECK(refusal.text.ends_with(": " + why));
  };
  const Output wx = of({5, 12}), wh = of({3, 12}), b = of({12});
  CHECK_NOTHROW(lstm(x, h, h, wx, wh, b));
  refused([&] { lstm(row, h, h, wx, wh, b); }, "lstm",
          "wants x [time, batch, n], here [-1, -1, -1], got f32[2, 5]");
  refused(
      [&] {
        lstm(x, of({7, 3}), h, wx, wh, b);
      },
      "lstm", "wants h0 [batch, h], here [2, -1], got f32[7, 3]");
  refused(
      [&] {
        lstm(x, h, of({2, 4}), wx, wh, b);
      },
      "lstm", "wants c0 [batch, h], here [2, 3], got f32[2, 4]");
  refused(
      [&] {
        lstm(x, h, h, of({4, 12}), wh, b);
      },
      "lstm", "wants w_x [n, 4h], here [5, 12], got f32[4, 12]");
  refused(
      [&] {
        lstm(x, of({2, -1}), of({-1, -1}), of({5, 10}), wh, b);
      },
      "lstm", "wants w_x [n, 4h], here [5, -1], got f32[5, 10]");
  refused(
      [&] {
        lstm(x, h, h, wx, of({3, 9}), b);
      },
      "lstm", "wants w_h [h, 4h], here [3, 12], got f32[3, 9]");
  refused([&] { lstm(x, h, h, wx, wh, of({3})); }, "lstm",
          "wants bias [4h], here [12], got f32[3]");
  refused(
      [&] {
        lstm(x, h, h, of({5, 12}, DType::f64), wh, b);
      },
      "lstm", "wants inputs of one dtype, got x of f32 and w_x of f64; cast one of them");
  refused([&] { lstm_cell(x, h, h, wx, wh, b); }, "lstm_cell",
          "wants x [batch, n], here [-1, -1], got f32[-1, 2, 5]");
  refused(
      [&] {
        lstm_cell(row, h, h, wx, of({4, 12}), b);
      },
      "lstm_cell", "wants w_h [h, 4h], here [3, 12], got f32[4, 12]");
  const Output gx = of({5, 9}), gh = of({3, 9}), gb = of({9});
  CHECK_NOTHROW(gru(x, h, gx, gh, gb, gb));
  refused([&] { gru(x, h, wx, gh, gb, gb); }, "gru",
          "wants w_x [n, 3h], here [5, 9], got f32[5, 12]");
  refused([&] { gru(x, h, gx, gh, gb, b); }, "gru",
          "wants recurrent_bias [3h], here [9], got f32[12]");
  refused(
      [&] {
        gru_cell(row, of({2, 4}), gx, gh, gb, gb);
      },
      "gru_cell", "wants w_x [n, 3h], here [5, 12], got f32[5, 9]");
}

}  // namespace troupe
