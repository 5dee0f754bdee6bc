// Transpose.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "a matrix",
                   .op = "Transpose",
                   .inputs = {matrix({{1, 2, 3}, {4, 5, 6}})},
                   .expected = {matrix({{1, 4}, {2, 5}, {3, 6}})}},
                  {.name = "a vector",
                   .op = "Transpose",
                   .inputs = {vector({1, 0})},
                   .expected = {vector({1, 0})}},
                  {.name = "a scalar",
                   .op = "Transpose",
                   .inputs = {scalar(1)},
                   .expected = {scalar(1)}},
                  {.name = "the order it has",
                   .op = "Transpose",
                   .inputs = {matrix({{1, 2}, {3, 4}})},
                   .attrs = {{"permutation", std::vector<int64_t>{0, 1}}},
                   .expected = {matrix({{1, 2}, {3, 4}})}},
                  {.name = "negative axes",
                   .op = "Transpose",
                   .inputs = {matrix({{1, 2}, {3, 4}})},
                   .attrs = {{"permutation", std::vector<int64_t>{-1, -2}}},
                   .expected = {matrix({{1, 3}, {2, 4}})}},
                  {.name = "three dimensions reversed",
                   .op = "Transpose",
                   .inputs = {iota({2, 1, 3})},
                   .expected = {values({3, 1, 2}, {0, 3, 1, 4, 2, 5})}},
                  {.name = "the last two of three",
                   .op = "Transpose",
                   .inputs = {iota({2, 2, 3})},
                   .attrs = {{"permutation", std::vector<int64_t>{0, 2, 1}}},
                   .expected = {values({2, 3, 2}, {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11})}},
                  {.name = "the first two of three",
                   .op = "Transpose",
                   .inputs = {iota({2, 2, 2})},
                   .attrs = {{"permutation", std::vector<int64_t>{1, 0, 2}}},
                   .expected = {values({2, 2, 2}, {0, 1, 4, 5, 2, 3, 6, 7})}},
                  {.name = "turned round",
                   .op = "Transpose",
                   .inputs = {iota({2, 2, 2})},
                   .attrs = {{"permutation", std::vector<int64_t>{2, 0, 1}}},
                   .expected = {values({2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7})}},
                  {.name = "empty",
                   .op = "Transpose",
                   .inputs = {zeros({0, 3})},
                   .expected = {zeros({3, 0})}},
              },
          .errors = {
              {.op = "Transpose",
               .inputs = {zeros({2, 3})},
               .attrs = {{"permutation", std::vector<int64_t>{0}}},
               .message = "the permutation has 1 axes, the input 2 dimensions"},
              {.op = "Transpose",
               .inputs = {zeros({2, 3})},
               .attrs = {{"permutation", std::vector<int64_t>{0, 0}}},
               .message = "names axis 0 twice"},
              {.op = "Transpose",
               .inputs = {zeros({2, 3})},
               .attrs = {{"permutation", std::vector<int64_t>{0, 2}}},
               .message = "axis 2 is not there: with 2 dimensions, axes go from -2 to 1"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Transpose reorders dimensions") { check(cases()); }

TEST_CASE("matrices larger than a block are transposed in full") {
  for (const DType dtype : {DType::u8, DType::f32, DType::f64}) {
    Graph graph;
    const Output x = placeholder(graph, dtype, Shape{3, 70, 45});
    Tensor value = iota({3, 70, 45});
    if (dtype == DType::u8) value = full({3, 70, 45}, 7);
    const Tensor y =
        converted(evaluate(transpose(x, {0, 2, 1}), {{x, converted(value, dtype)}}), DType::f64);
    REQUIRE(y.shape() == Shape{3, 45, 70});
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t i = 0; i < 70; ++i)
        for (int64_t j = 0; j < 45; ++j)
          REQUIRE(y.data<double>()[(b * 45 + j) * 70 + i] ==
                  value.data<double>()[(b * 70 + i) * 45 + j]);
  }
}

}  // namespace troupe
