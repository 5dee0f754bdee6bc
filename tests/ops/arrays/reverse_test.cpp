// Reverse, Roll, ReverseSequence and flip_left_right. Expected values are NumPy's.
#include <limits>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase of(std::string name, std::string op, std::vector<Tensor> inputs, Attrs attrs,
          Tensor expected) {
  return Case(std::move(op), std::move(name), std::move(inputs), {expected}, std::move(attrs));
}
Attrs along(Ints axes) { return {{"axes", std::move(axes)}}; }
Attrs by(Ints shifts, Ints axes) {
  return {{"shifts", std::move(shifts)}, {"axes", std::move(axes)}};
}
Attrs sequence(int64_t axis, int64_t batch_axis) {
  return {{"sequence_axis", axis}, {"batch_axis", batch_axis}};
}

std::vector<OpCase> reversed() {
  return {of("columns", "Reverse", {iota({2, 3})}, along({-1}), matrix({{2, 1, 0}, {5, 4, 3}})),
          of("all", "Reverse", {iota({2, 3})}, along({}), matrix({{5, 4, 3}, {2, 1, 0}})),
          of("between dimensions", "Reverse", {iota({2, 2, 2})}, along({1}),
             values({2, 2, 2}, {2, 3, 0, 1, 6, 7, 4, 5})),
          of("the outermost and the innermost", "Reverse", {iota({2, 2, 2})}, along({0, 2}),
             values({2, 2, 2}, {5, 4, 7, 6, 1, 0, 3, 2})),
          of("size one", "Reverse", {vector({1})}, along({0}), vector({1})),
          of("a scalar", "Reverse", {scalar(1)}, along({}), scalar(1)),
          of("empty", "Reverse", {zeros({2, 0})}, along({0, 1}), zeros({2, 0})),
          Case("Reverse", "an image is flipped", {iota({1, 2, 3, 1})},
               {values({1, 2, 3, 1}, {2, 1, 0, 5, 4, 3})})
              .made_by([](Graph&, const std::vector<Output>& x) {
                return std::vector{flip_left_right(x[0])};
              })};
}

std::vector<OpCase> rolled() {
  return {
      of("a vector", "Roll", {iota({5})}, by({2}, {0}), vector({3, 4, 0, 1, 2})),
      of("two axes", "Roll", {iota({2, 3})}, by({1, -1}, {0, 1}), matrix({{4, 5, 3}, {1, 2, 0}})),
      of("between dimensions, more than once around", "Roll", {iota({2, 3, 2})}, by({4}, {1}),
         values({2, 3, 2}, {4, 5, 0, 1, 2, 3, 10, 11, 6, 7, 8, 9})),
      of("an axis twice", "Roll", {iota({5})}, by({3, -1}, {0, -1}), vector({3, 4, 0, 1, 2})),
      of("all the way", "Roll", {vector({1, 0})}, by({-4}, {0}), vector({1, 0})),
      of("a large shift", "Roll", {vector({1, 0, 0})},
         by({std::numeric_limits<int64_t>::max()}, {0}), vector({0, 1, 0})),
      of("no axis", "Roll", {scalar(1)}, by({}, {}), scalar(1)),
      of("size one", "Roll", {vector({1})}, by({7}, {0}), vector({1})),
      of("empty", "Roll", {zeros({2, 0})}, by({1, 1}, {0, 1}), zeros({2, 0}))};
}

std::vector<OpCase> sequences() {
  return {
      of("rows", "ReverseSequence", {iota({2, 4}), i32(vector({3, 1}))}, sequence(1, 0),
         matrix({{2, 1, 0, 3}, {4, 5, 6, 7}})),
      of("columns", "ReverseSequence", {iota({3, 2}), i64(vector({0, 3}))}, sequence(0, -1),
         matrix({{0, 5}, {2, 3}, {4, 1}})),
      of("a dimension between", "ReverseSequence", {iota({2, 2, 3, 2}), i64(vector({2, 3}))},
         sequence(2, 0), values({2, 2, 3, 2}, {2,  3,  0,  1,  4,  5,  8,  9,  6,  7,  10, 11,
                                               16, 17, 14, 15, 12, 13, 22, 23, 20, 21, 18, 19})),
      of("the batch last", "ReverseSequence", {iota({3, 2, 2}), i32(vector({3, 2}))},
         sequence(0, 2), values({3, 2, 2}, {8, 5, 10, 7, 4, 1, 6, 3, 0, 9, 2, 11})),
      of("size one", "ReverseSequence", {matrix({{5}}), i32(vector({1}))}, sequence(1, 0),
         matrix({{5}})),
      of("f32", "ReverseSequence", {f32(matrix({{1, 2}})), i32(vector({2}))}, sequence(1, 0),
         f32(matrix({{2, 1}}))),
      of("bool", "ReverseSequence", {booleans(matrix({{1, 0}})), i32(vector({2}))}, sequence(1, 0),
         booleans(matrix({{0, 1}}))),
      of("empty", "ReverseSequence", {zeros({0, 3}), zeros({0}, DType::i32)}, sequence(1, 0),
         zeros({0, 3}))};
}

const Table table("Reverse, Roll and ReverseSequence put elements into another order", [] {
  OpCases all = {.values = reversed()};
  for (auto* table : {rolled, sequences})
    for (OpCase& c : table()) all.values.push_back(std::move(c));
  all.errors = {
      Refused("Reverse", {zeros({2})}, "axis 2 is not there", along({0, 2})),
      Refused("Reverse", {scalar(1)}, "axis 0 is not there", along({0})),
      Refused("Reverse", {zeros({2})}, "names axis -1 twice", along({0, -1})),
      Refused("Roll", {scalar(1)}, "axis 0 is not there", by({2}, {0})),
      Refused("Roll", {zeros({2})}, "wants one shift for each axis, got 2 shifts and 1 axes",
              by({1, 2}, {0})),
      Refused("Roll", {zeros({2})}, "has no opposite; take one that is nearer to 0",
              by({std::numeric_limits<int64_t>::min()}, {0})),
      Refused("ReverseSequence", {zeros({2, 3}), i32(zeros({3}))},
              "wants a length for each of the 2 sequences along axis 0 of [2, 3], got [3]",
              sequence(1, 0)),
      Refused("ReverseSequence", {zeros({2, 3}), i32(zeros({2}))}, "wants two axes, got 1 for both",
              sequence(1, -1)),
      Refused("ReverseSequence", {zeros({2, 3}), zeros({2})},
              "wants indices of i32 or i64, got f64; cast them", sequence(1, 0)),
      Refused("ReverseSequence", {zeros({2, 3}), i32(vector({3, 4}))},
              "length 4 (number 1 of 2) is not in [0, 3], the size of the sequence axis",
              sequence(1, 0))
          .in_step(),
      Refused("ReverseSequence", {zeros({1, 3}), i64(vector({-1}))},
              "length -1 (number 0 of 1) is not in [0, 3]", sequence(1, 0))
          .in_step()};
  return all;
});

}  // namespace

TEST_CASE("flip_left_right wants images") {
  Graph graph;
  CHECK_THROWS_WITH_AS(flip_left_right(constant(graph, zeros({2, 2})), {"train.cpp", 42}),
                       "flip_left_right made at train.cpp:42: wants images [..., height, width, "
                       "channels], got [2, 2]",
                       Error);
}

}  // namespace troupe
