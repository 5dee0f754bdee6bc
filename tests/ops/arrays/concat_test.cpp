// Concat and ConcatGradient.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "rows",
                   .op = "Concat",
                   .inputs = {matrix({{1, 2}}), matrix({{3, 4}, {5, 6}})},
                   .attrs = {{"axis", int64_t{0}}},
                   .expected = {matrix({{1, 2}, {3, 4}, {5, 6}})}},
                  {.name = "columns",
                   .op = "Concat",
                   .inputs = {matrix({{1}, {2}}), matrix({{3, 4}, {5, 6}})},
                   .attrs = {{"axis", int64_t{1}}},
                   .expected = {matrix({{1, 3, 4}, {2, 5, 6}})}},
                  {.name = "three parts, the middle one empty",
                   .op = "Concat",
                   .inputs = {vector({1}), zeros({0}), vector({0, 1})},
                   .attrs = {{"axis", int64_t{-1}}},
                   .expected = {vector({1, 0, 1})}},
                  {.name = "in the middle",
                   .op = "Concat",
                   .inputs = {iota({2, 1, 2}), iota({2, 2, 2}, 10)},
                   .attrs = {{"axis", int64_t{1}}},
                   .expected = {values({2, 3, 2}, {0, 1, 10, 11, 12, 13, 2, 3, 14, 15, 16, 17})}},
                  {.name = "one part",
                   .op = "Concat",
                   .inputs = {vector({1, 2})},
                   .attrs = {{"axis", int64_t{0}}},
                   .expected = {vector({1, 2})}},
                  {.name = "empty",
                   .op = "Concat",
                   .inputs = {zeros({0, 2}), zeros({0, 3})},
                   .attrs = {{"axis", int64_t{1}}},
                   .expected = {zeros({0, 5})}},
                  {.name = "rows",
                   .op = "ConcatGradient",
                   .inputs = {matrix({{1, 2}, {3, 4}, {5, 6}}), zeros({1, 2}), zeros({2, 2})},
                   .attrs = {{"axis", int64_t{0}}},
                   .expected = {matrix({{1, 2}}), matrix({{3, 4}, {5, 6}})}},
                  {.name = "columns",
                   .op = "ConcatGradient",
                   .inputs = {matrix({{1, 3, 4}, {2, 5, 6}}), zeros({2, 1}), zeros({2, 2})},
                   .attrs = {{"axis", int64_t{-1}}},
                   .expected = {matrix({{1}, {2}}), matrix({{3, 4}, {5, 6}})}},
                  {.name = "one part of size one",
                   .op = "ConcatGradient",
                   .inputs = {vector({1}), vector({0})},
                   .attrs = {{"axis", int64_t{0}}},
                   .expected = {vector({1})}},
                  {.name = "an empty part",
                   .op = "ConcatGradient",
                   .inputs = {vector({1, 2}), zeros({0}), zeros({2})},
                   .attrs = {{"axis", int64_t{0}}},
                   .expected = {zeros({0}), vector({1, 2})}},
              },
          .errors = {
              {.op = "Concat",
               .inputs = {zeros({2, 3}), zeros({3, 2})},
               .attrs = {{"axis", int64_t{0}}},
               .message = "parts may differ along axis 0 alone, got [2, 3] and [3, 2]"},
              {.op = "Concat",
               .inputs = {zeros({INT64_MAX, 0}), zeros({INT64_MAX, 0})},
               .attrs = {{"axis", int64_t{0}}},
               .message = "are too large to be joined"},
              {.op = "Concat",
               .inputs = {zeros({2}), zeros({2, 1})},
               .attrs = {{"axis", int64_t{0}}},
               .message = "parts may differ along axis 0 alone"},
              {.op = "Concat",
               .inputs = {zeros({2})},
               .attrs = {{"axis", int64_t{1}}},
               .message = "axis 1 is not there"},
              {.op = "Concat",
               .inputs = {},
               .attrs = {{"axis", int64_t{0}}},
               .message = "wants at least 1 input (parts...), got 0"},
              {.op = "ConcatGradient",
               .inputs = {zeros({4}), zeros({2}), zeros({3})},
               .attrs = {{"axis", int64_t{0}}},
               .message = "[5], the parts joined along axis 0, got [4]"},
              {.op = "ConcatGradient",
               .inputs = {zeros({4, 2}), zeros({2, 3}), zeros({2, 3})},
               .attrs = {{"axis", int64_t{0}}},
               .message = "the parts joined along axis 0, got [4, 2]"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Concat joins along an axis, and its gradient cuts there") { check(cases()); }

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
    std::vector<int64_t> sizes;
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

}  // namespace troupe
