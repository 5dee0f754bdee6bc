// Pad and PadGradient. Expected values are NumPy's.
#include <limits>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs borders(Ints before, Ints after, const char* mode = "constant") {
  return {{"front", std::move(before)}, {"back", std::move(after)}, {"mode", std::string(mode)}};
}
Attrs filled(Ints before, Ints after, double value) {
  Attrs attrs = borders(std::move(before), std::move(after));
  attrs.emplace("value", value);
  return attrs;
}

OpCase of(std::string name, std::string op, Tensor x, Attrs attrs, Tensor expected) {
  return Case(std::move(op), std::move(name), {x}, {expected}, std::move(attrs));
}

std::vector<OpCase> pads() {
  const Tensor x = iota({2, 3});
  return {
      of("a value", "Pad", iota({2, 2}), filled({1, 0}, {0, 2}, 7),
         matrix({{7, 7, 7, 7}, {0, 1, 7, 7}, {2, 3, 7, 7}})),
      of("zeros", "Pad", values({1, 2, 1}, {1, 2}), borders({0, 1, 1}, {1, 0, 1}),
         values({2, 3, 3}, {0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})),
      of("infinities", "Pad", vector({1}), filled({1}, {0}, -INFINITY), vector({-INFINITY, 1})),
      of("reflect", "Pad", x, borders({1, 2}, {1, 2}, "reflect"),
         values({4, 7}, {5, 4, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2, 1, 0,
                         5, 4, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2, 1, 0})),
      of("symmetric", "Pad", x, borders({1, 2}, {1, 2}, "symmetric"),
         values({4, 7}, {1, 0, 0, 1, 2, 2, 1, 1, 0, 0, 1, 2, 2, 1,
                         4, 3, 3, 4, 5, 5, 4, 4, 3, 3, 4, 5, 5, 4})),
      of("edge", "Pad", x, borders({1, 2}, {1, 2}, "edge"),
         values({4, 7}, {0, 0, 0, 1, 2, 2, 2, 0, 0, 0, 1, 2, 2, 2,
                         3, 3, 3, 4, 5, 5, 5, 3, 3, 3, 4, 5, 5, 5})),
      of("nothing around it", "Pad", x, borders({0, 0}, {0, 0}, "reflect"), x),
      of("a scalar", "Pad", scalar(1), borders({}, {}), scalar(1)),
      of("an edge around one", "Pad", vector({1}), borders({2}, {1}, "edge"), vector({1, 1, 1, 1})),
      of("around nothing", "Pad", zeros({0, 2}), filled({1, 0}, {1, 1}, 1), full({2, 3}, 1)),
      of("empty", "Pad", zeros({2, 0}), borders({1, 0}, {1, 0}, "reflect"), zeros({4, 0}))};
}

std::vector<OpCase> sums() {
  return {
      of("reflect", "PadGradient", iota({7}), borders({2}, {1}, "reflect"), vector({2, 4, 10, 5})),
      of("symmetric", "PadGradient", iota({7}), borders({2}, {1}, "symmetric"),
         vector({3, 3, 4, 11})),
      of("edge", "PadGradient", iota({6}, 1), borders({3}, {2}, "edge"), vector({21})),
      of("two dimensions, reflected", "PadGradient", iota({4, 7}),
         borders({1, 2}, {1, 2}, "reflect"), matrix({{72, 102, 64}, {44, 60, 36}})),
      of("two dimensions, symmetric", "PadGradient", iota({4, 7}),
         borders({1, 2}, {1, 2}, "symmetric"), matrix({{20, 39, 32}, {76, 123, 88}})),
      of("two dimensions, edges", "PadGradient", iota({4, 7}), borders({1, 2}, {1, 2}, "edge"),
         matrix({{27, 13, 51}, {111, 41, 135}})),
      of("nothing around it", "PadGradient", vector({1, 2}), borders({0}, {0}, "edge"),
         vector({1, 2})),
      of("empty", "PadGradient", zeros({4, 0}), borders({1, 0}, {1, 0}, "edge"), zeros({2, 0}))};
}

const Table table("Pad puts a border around x, and its gradient adds what the border shows", [] {
  OpCases all = {.values = pads()};
  for (OpCase& c : all.values)
    if (c.name == "infinities") c.smooth = false;
  for (OpCase& c : sums()) all.values.push_back(std::move(c));
  all.errors = {
      Refused("Pad", {zeros({2})},
              "wants a border before and one after each of 1 dimensions, got 2 and 2",
              borders({1, 2}, {1, 2}, "edge")),
      Refused("Pad", {zeros({2})},
              "wants borders of at least 0 along axis 0, got -1 and 0; slice cuts",
              borders({-1}, {0})),
      Refused("Pad", {zeros({2})},
              "cannot pad axis 0 of [2] by 2 and 0: mode reflect has elements for 1 at each",
              borders({2}, {0}, "reflect")),
      Refused("Pad", {zeros({2})}, "mode symmetric has elements for 2 at each end",
              borders({0}, {3}, "symmetric")),
      Refused("Pad", {zeros({0})}, "mode edge has elements for 0 at each end",
              borders({0}, {1}, "edge")),
      Refused("Pad", {zeros({2})},
              "pads with mode constant, reflect, symmetric or edge, not \"wrap\"",
              borders({1}, {1}, "wrap")),
      Refused("Pad", {i32(zeros({2}))}, "the value 0.5 is no i32 value", filled({1}, {1}, 0.5)),
      Refused("Pad", {zeros({2})},
              "cannot pad axis 0 of [2] by 9223372036854775807 and 0; it would be past 2^63",
              borders({std::numeric_limits<int64_t>::max()}, {0})),
      Refused("PadGradient", {zeros({2})}, "axis 0 of [2] is smaller than its borders, 2 and 1",
              borders({2}, {1}, "symmetric")),
      Refused("PadGradient", {zeros({4})}, "mode reflect has elements for 0 at each end",
              borders({2}, {1}, "reflect")),
      Refused("PadGradient", {zeros({4})}, "adds borders of mode reflect, symmetric or edge",
              borders({1}, {1})),
      Refused("PadGradient", {i64(zeros({4}))}, "has no kernel for i64; cast to one of f32, f64",
              borders({1}, {1}, "edge"))};
  return all;
});

}  // namespace

TEST_CASE("pad takes its mode from the options") {
  Graph graph;
  const Output x = constant(graph, vector({1, 2, 3}));
  CHECK(same_bits(evaluate(pad(x, {1}, {1})), vector({0, 1, 2, 3, 0})));
  CHECK(same_bits(evaluate(pad(x, {1}, {1}, {.mode = PadMode::reflect})), vector({2, 1, 2, 3, 2})));
  CHECK(
      same_bits(evaluate(pad(x, {1}, {1}, {.mode = PadMode::symmetric})), vector({1, 1, 2, 3, 3})));
  CHECK(same_bits(evaluate(pad(x, {2}, {0}, {.mode = PadMode::edge})), vector({1, 1, 1, 2, 3})));
  CHECK(same_bits(evaluate(pad(x, {0}, {1}, {.value = 5})), vector({1, 2, 3, 5})));
}

}  // namespace troupe
