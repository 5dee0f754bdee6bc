// Tile, Repeat and their gradients.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase of(std::string name, std::string op, std::vector<Tensor> inputs, Attrs attrs,
          Tensor expected) {
  return Case(std::move(op), std::move(name), std::move(inputs), {expected}, std::move(attrs));
}
Attrs repeats(Ints list) { return {{"repeats", std::move(list)}}; }
Attrs times(int64_t count, int64_t axis) { return {{"count", count}, {"axis", axis}}; }

std::vector<OpCase> tiles() {
  return {
      of("both dimensions", "Tile", {iota({2, 3})}, repeats({2, 2}),
         values({4, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5})),
      of("a size of 1 and the last", "Tile", {iota({2, 1, 2})}, repeats({1, 3, 2}),
         values({2, 3, 4},
                {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3})),
      of("rows", "Tile", {matrix({{1, 0}})}, repeats({3, 1}), matrix({{1, 0}, {1, 0}, {1, 0}})),
      of("once", "Tile", {matrix({{1, 0}})}, repeats({1, 1}), matrix({{1, 0}})),
      of("never", "Tile", {vector({1, 0})}, repeats({0}), zeros({0})),
      of("a scalar", "Tile", {scalar(1)}, repeats({}), scalar(1)),
      of("empty", "Tile", {zeros({0, 2})}, repeats({3, 2}), zeros({0, 4})),
      of("sums of rows", "TileGradient", {iota({4, 3}), zeros({2, 3})}, repeats({2, 1}),
         matrix({{6, 8, 10}, {12, 14, 16}})),
      of("sums of both", "TileGradient", {iota({4, 6}), zeros({2, 3})}, repeats({2, 2}),
         matrix({{30, 34, 38}, {54, 58, 62}})),
      of("once", "TileGradient", {vector({1, 2}), zeros({2})}, repeats({1}), vector({1, 2})),
      of("of nothing", "TileGradient", {zeros({0}), zeros({2})}, repeats({0}), zeros({2})),
      of("into nothing", "TileGradient", {zeros({0, 2}), zeros({0, 1})}, repeats({3, 2}),
         zeros({0, 1}))};
}

std::vector<OpCase> repetitions() {
  return {
      of("rows", "Repeat", {iota({2, 2})}, times(2, 0), matrix({{0, 1}, {0, 1}, {2, 3}, {2, 3}})),
      of("elements", "Repeat", {iota({2, 2})}, times(2, -1), matrix({{0, 0, 1, 1}, {2, 2, 3, 3}})),
      of("between dimensions", "Repeat", {iota({2, 2, 2})}, times(3, 1),
         values({2, 6, 2},
                {0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7})),
      of("once", "Repeat", {vector({1, 0})}, times(1, 0), vector({1, 0})),
      of("never", "Repeat", {vector({1, 0})}, times(0, 0), zeros({0})),
      of("size one", "Repeat", {vector({1})}, times(3, 0), vector({1, 1, 1})),
      of("empty", "Repeat", {zeros({0, 2})}, times(2, 1), zeros({0, 4})),
      of("sums", "RepeatGradient", {iota({2, 6, 2}), zeros({2, 2, 2})}, times(3, 1),
         values({2, 2, 2}, {6, 9, 24, 27, 42, 45, 60, 63})),
      of("sums of elements", "RepeatGradient", {vector({1, 2, 3, 4}), zeros({2})}, times(2, 0),
         vector({3, 7})),
      of("of nothing", "RepeatGradient", {zeros({0}), zeros({2})}, times(0, 0), zeros({2})),
      of("into nothing", "RepeatGradient", {zeros({0, 4}), zeros({0, 2})}, times(2, 1),
         zeros({0, 2}))};
}

const Table table("Tile and Repeat copy, and their gradients sum the copies", [] {
  OpCases all = {.values = tiles()};
  for (OpCase& c : repetitions()) all.values.push_back(std::move(c));
  all.errors = {
      Refused("Tile", {zeros({2})}, "wants one number of repeats for each of 1 dimensions, got 2",
              repeats({2, 2})),
      Refused("Tile", {zeros({2})}, "repeats at least 0 times, not -1", repeats({-1})),
      Refused("Tile", {zeros({3})},
              "cannot repeat size 3 4611686018427387904 times; it would be past 2^63",
              repeats({int64_t{1} << 62})),
      Refused("TileGradient", {zeros({3, 3}), zeros({2, 3})},
              "wants dy of shape [4, 3], a tile of [2, 3], got [3, 3]", repeats({2, 1})),
      Refused("TileGradient", {i32(zeros({4})), i32(zeros({2}))},
              "has no kernel for i32; cast to one of f32, f64", repeats({2})),
      Refused("Repeat", {zeros({2})}, "axis 1 is not there", times(2, 1)),
      Refused("Repeat", {scalar(1)}, "axis 0 is not there", times(2, 0)),
      Refused("Repeat", {zeros({2})}, "repeats at least 0 times, not -2", times(-2, 0)),
      Refused("RepeatGradient", {zeros({3}), zeros({2})},
              "wants dy of shape [4], [2] repeated 2 times along axis 0, got [3]", times(2, 0)),
      Refused("RepeatGradient", {u8(zeros({4})), u8(zeros({2}))},
              "has no kernel for u8; cast to one of f32, f64", times(2, 0))};
  return all;
});

}  // namespace

TEST_CASE("long tiles have every copy") {
  Graph graph;
  const Output x = constant(graph, i32(iota({3, 7})));
  const Tensor y = evaluate(tile(x, {50, 1001}));  // more than one chunk of repeat_block
  REQUIRE(y.shape() == Shape{150, 7007});
  bool same = true;
  for (int64_t i = 0; i < 150; ++i)
    for (int64_t j = 0; j < 7007; ++j)
      same = same && y.values<int32_t>()[static_cast<size_t>(i * 7007 + j)] == i % 3 * 7 + j % 7;
  CHECK(same);
}

}  // namespace troupe
