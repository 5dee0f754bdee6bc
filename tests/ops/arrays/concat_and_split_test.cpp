// Concat, Split, stack and unstack.
#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table concat_table("Concat joins along an axis, and its gradient cuts there", [] {
  return table_of(
      "Concat",
      {
          Case("rows", {matrix({{1, 2}}), matrix({{3, 4}, {5, 6}})},
               {matrix({{1, 2}, {3, 4}, {5, 6}})}, {{"axis", int64_t{0}}}),
          Case("columns", {matrix({{1}, {2}}), matrix({{3, 4}, {5, 6}})},
               {matrix({{1, 3, 4}, {2, 5, 6}})}, {{"axis", int64_t{1}}}),
          Case("three parts, the middle one empty", {vector({1}), zeros({0}), vector({0, 1})},
               {vector({1, 0, 1})}, {{"axis", int64_t{-1}}}),
          Case("in the middle", {iota({2, 1, 2}), iota({2, 2, 2}, 10)},
               {values({2, 3, 2}, {0, 1, 10, 11, 12, 13, 2, 3, 14, 15, 16, 17})},
               {{"axis", int64_t{1}}}),
          Case("one part", {vector({1, 2})}, {vector({1, 2})}, {{"axis", int64_t{0}}}),
          Case("empty", {zeros({0, 2}), zeros({0, 3})}, {zeros({0, 5})}, {{"axis", int64_t{1}}}),
          Case("ConcatGradient", "rows",
               {matrix({{1, 2}, {3, 4}, {5, 6}}), zeros({1, 2}), zeros({2, 2})},
               {matrix({{1, 2}}), matrix({{3, 4}, {5, 6}})}, {{"axis", int64_t{0}}}),
          Case("ConcatGradient", "columns",
               {matrix({{1, 3, 4}, {2, 5, 6}}), zeros({2, 1}), zeros({2, 2})},
               {matrix({{1}, {2}}), matrix({{3, 4}, {5, 6}})}, {{"axis", int64_t{-1}}}),
          Case("ConcatGradient", "one part of size one", {vector({1}), vector({0})}, {vector({1})},
               {{"axis", int64_t{0}}}),
          Case("ConcatGradient", "an empty part", {vector({1, 2}), zeros({0}), zeros({2})},
               {zeros({0}), vector({1, 2})}, {{"axis", int64_t{0}}}),
      },
      {
          Refused({zeros({2, 3}), zeros({3, 2})},
                  "parts may differ along axis 0 alone, got [2, 3] and [3, 2]",
                  {{"axis", int64_t{0}}}),
          Refused({zeros({INT64_MAX, 0}), zeros({INT64_MAX, 0})}, "are too large to be joined",
                  {{"axis", int64_t{0}}}),
          Refused({zeros({2}), zeros({2, 1})}, "parts may differ along axis 0 alone",
                  {{"axis", int64_t{0}}}),
          Refused({zeros({2})}, "axis 1 is not there", {{"axis", int64_t{1}}}),
          Refused({}, "wants at least 1 input (parts...), got 0", {{"axis", int64_t{0}}}),
          Refused("ConcatGradient", {zeros({4}), zeros({2}), zeros({3})},
                  "[5], the parts joined along axis 0, got [4]", {{"axis", int64_t{0}}}),
          Refused("ConcatGradient", {zeros({4, 2}), zeros({2, 3}), zeros({2, 3})},
                  "the parts joined along axis 0, got [4, 2]", {{"axis", int64_t{0}}}),
      });
});

const Table split_table("Split cuts into equal parts", [] {
  return table_of(
      "Split",
      {
          Case("rows", {matrix({{1, 2}, {3, 4}})}, {matrix({{1, 2}}), matrix({{3, 4}})},
               {{"parts", int64_t{2}}, {"axis", int64_t{0}}}),
          Case("columns", {matrix({{1, 2, 3, 4}, {5, 6, 7, 8}})},
               {matrix({{1, 2}, {5, 6}}), matrix({{3, 4}, {7, 8}})},
               {{"parts", int64_t{2}}, {"axis", int64_t{-1}}}),
          Case("in the middle", {iota({2, 3, 1})},
               {values({2, 1, 1}, {0, 3}), values({2, 1, 1}, {1, 4}), values({2, 1, 1}, {2, 5})},
               {{"parts", int64_t{3}}, {"axis", int64_t{1}}}),
          Case("one part of size one", {vector({1})}, {vector({1})},
               {{"parts", int64_t{1}}, {"axis", int64_t{0}}}),
          Case("empty", {zeros({0, 2})}, {zeros({0, 2}), zeros({0, 2})},
               {{"parts", int64_t{2}}, {"axis", int64_t{0}}}),
      },
      {
          Refused({zeros({3})}, "cannot cut [3] into 2 equal parts along axis 0",
                  {{"parts", int64_t{2}}, {"axis", int64_t{0}}}),
          Refused({zeros({3})}, "splits into 1 to 65536 parts, not 0",
                  {{"parts", int64_t{0}}, {"axis", int64_t{0}}}),
          Refused({zeros({3})}, "axis 1 is not there",
                  {{"parts", int64_t{3}}, {"axis", int64_t{1}}}),
          Refused({scalar(1)}, "axis 0 is not there",
                  {{"parts", int64_t{1}}, {"axis", int64_t{0}}}),
      });
});

OpCase stacked(std::string name, std::vector<Tensor> parts, int64_t axis, Tensor expected) {
  return Case("Concat", std::move(name), std::move(parts), {expected})
      .made_by([=](Graph&, const std::vector<Output>& x) { return std::vector{stack(x, axis)}; });
}

OpCase unstacked(std::string name, Tensor x, int64_t axis, int64_t count,
                 std::vector<Tensor> expected) {
  return Case("Split", std::move(name), {x}, std::move(expected))
      .made_by([=](Graph&, const std::vector<Output>& in) { return unstack(in[0], axis, count); });
}

const Table stack_table("stack joins along a new dimension, and unstack takes it away", [] {
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
});

}  // namespace

TEST_CASE("a concat of nothing is refused") {
  CHECK_THROWS_WITH_AS(concat({}, 0, {"train.cpp", 7}),
                       "Concat made at train.cpp:7: there are no parts; pass at least one", Error);
}

TEST_CASE("parts that are cut into jobs lie where they belong, and come back as they were") {
  // Many runs in one job, and runs that span many jobs, along the first axis and along another.
  struct Case {
    int64_t rows, axis;
  };
  for (const Case c : {Case{5003, 1}, {2, 1}, {3, 0}}) {
    const int64_t rows = c.rows, axis = c.axis;
    CAPTURE(rows);
    CAPTURE(axis);
    std::vector<Tensor> parts;
    Ints sizes;
    const int64_t width = rows > 100 ? 7 : 50'001;
    for (int64_t i = 0; i < 3; ++i) {
      sizes.push_back(axis == 1 ? width * i : rows + i);
      parts.push_back(iota(axis == 1 ? Shape{rows, sizes.back()} : Shape{sizes.back(), width},
                           static_cast<double>(1'000'000 * i)));
    }
    Graph graph;
    std::vector<Output> inputs;
    for (const Tensor& part : parts) inputs.push_back(constant(graph, part));
    const Output joined = concat(inputs, axis);
    std::vector<Output> wanted = concat_gradient(joined, inputs, axis);
    int64_t at = 0;
    for (const int64_t size : sizes) {
      wanted.push_back(axis == 1 ? slice(joined, {0, at}, {rows, size})
                                 : slice(joined, {at, 0}, {size, width}));
      at += size;
    }
    const std::vector<Tensor> got = evaluate(graph, wanted);
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(got[i], parts[i % 3]));
    }
  }
}

TEST_CASE("the parts of a concat are checked where the graph could not know them") {
  Graph graph;
  const Output a = placeholder(graph, DType::f32, Shape{1, -1}),
               b = placeholder(graph, DType::f32, Shape{1, 2});
  const Output joined = concat({a, b}, 0);
  CHECK(joined.shape() == Shape{2, 2});
  CHECK_THROWS_WITH_AS(evaluate(joined, {{a, f32(zeros({1, 3}))}, {b, f32(zeros({1, 2}))}}),
                       doctest::Contains("parts may differ along axis 0 alone"), Error);
}

TEST_CASE("parts of a split that nobody reads have zero gradients") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{2, 2});
  const Output dx = gradients({square(split(x, 2, 1)[1])}, {x})[0];
  CHECK(!difference(evaluate(dx, {{x, matrix({{1, 2}, {3, 4}})}}), matrix({{0, 4}, {0, 8}})));
}

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
