// stack and unstack, which are made of ExpandDims and Concat, Split and Squeeze.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase stacked(std::string name, std::vector<Tensor> parts, int64_t axis, Tensor expected) {
  return Case("Concat", std::move(name), std::move(parts), {expected})
      .made_by([=](Graph&, const std::vector<Output>& x) { return std::vector{stack(x, axis)}; });
}

OpCase unstacked(std::string name, Tensor x, int64_t axis, int64_t count,
                 std::vector<Tensor> expected) {
  return Case("Split", std::move(name), {x}, std::move(expected))
      .made_by([=](Graph&, const std::vector<Output>& in) { return unstack(in[0], axis, count); });
}

OpCases cases() {
  const Tensor a = vector({1, 2}), b = vector({3, 4}), c = vector({5, 6});
  const Tensor x = matrix({{1, 2}, {3, 4}, {5, 6}});
  return table_of(
      "Concat",
      {stacked("as rows", {a, b, c}, 0, x),
       stacked("as columns", {a, b, c}, -1, matrix({{1, 3, 5}, {2, 4, 6}})),
       stacked("one", {a}, 0, matrix({{1, 2}})),
       stacked("scalars", {scalar(1), scalar(0)}, 0, vector({1, 0})),
       stacked("empty ones", {zeros({0, 2}), zeros({0, 2})}, 1, zeros({0, 2, 2})),
       unstacked("rows", x, 0, 3, {a, b, c}),
       unstacked("columns", x, -1, 2, {vector({1, 3, 5}), vector({2, 4, 6})}),
       unstacked("size one", vector({1}), 0, 1, {scalar(1)}),
       unstacked("empty ones", zeros({2, 0}), 0, 2, {zeros({0}), zeros({0})})},
      {Refused({zeros({2}), zeros({3})},
               "parts may differ along axis 0 alone, got [1, 2] and [1, 3]")
           .made_by([](Graph&, const std::vector<Output>& in) { return std::vector{stack(in)}; }),
       Refused("Split", {zeros({4})}, "cannot leave out axis 0 of [2], which has size 2")
           .made_by([](Graph&, const std::vector<Output>& in) { return unstack(in[0], 0, 2); })});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("stack joins along a new dimension, and unstack takes it away") { check(cases()); }

TEST_CASE("unstack finds the number of parts where the size is known") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {3, -1});
  const auto parts = unstack(x);
  REQUIRE(parts.size() == 3);
  CHECK(parts[2].shape() == Shape{-1});
  CHECK_THROWS_WITH_AS(unstack(x, 1, -1, {"train.cpp", 42}),
                       "unstack made at train.cpp:42: the size of [3, -1] along axis 1 is not "
                       "known; say how many parts there are",
                       Error);
  CHECK_THROWS_WITH_AS(unstack(x, 2), doctest::Contains("axis 2 is not there"), Error);
  CHECK_THROWS_WITH_AS(unstack(placeholder(graph, DType::f32, {0})),
                       doctest::Contains("there is nothing along axis 0 of [0]"), Error);
  CHECK_THROWS_WITH_AS(unstack({}), doctest::Contains("an undefined Output"), Error);
  CHECK_THROWS_WITH_AS(stack({}), doctest::Contains("there are no parts; pass at least one"),
                       Error);
}

}  // namespace troupe
