// Transpose.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "Transpose",
      {
          Case("a matrix", {matrix({{1, 2, 3}, {4, 5, 6}})}, {matrix({{1, 4}, {2, 5}, {3, 6}})}),
          Case("a vector", {vector({1, 0})}, {vector({1, 0})}),
          Case("a scalar", {scalar(1)}, {scalar(1)}),
          Case("the order it has", {matrix({{1, 2}, {3, 4}})}, {matrix({{1, 2}, {3, 4}})},
               {{"permutation", Ints{0, 1}}}),
          Case("negative axes", {matrix({{1, 2}, {3, 4}})}, {matrix({{1, 3}, {2, 4}})},
               {{"permutation", Ints{-1, -2}}}),
          Case("three dimensions reversed", {iota({2, 1, 3})},
               {values({3, 1, 2}, {0, 3, 1, 4, 2, 5})}),
          Case("the last two of three", {iota({2, 2, 3})},
               {values({2, 3, 2}, {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11})},
               {{"permutation", Ints{0, 2, 1}}}),
          Case("the first two of three", {iota({2, 2, 2})},
               {values({2, 2, 2}, {0, 1, 4, 5, 2, 3, 6, 7})}, {{"permutation", Ints{1, 0, 2}}}),
          Case("turned round", {iota({2, 2, 2})}, {values({2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7})},
               {{"permutation", Ints{2, 0, 1}}}),
          Case("empty", {zeros({0, 3})}, {zeros({3, 0})}),
      },
      {
          Refused({zeros({2, 3})}, "the permutation has 1 axes, the input 2 dimensions",
                  {{"permutation", Ints{0}}}),
          Refused({zeros({2, 3})}, "names axis 0 twice", {{"permutation", Ints{0, 0}}}),
          Refused({zeros({2, 3})}, "axis 2 is not there: with 2 dimensions, axes go from -2 to 1",
                  {{"permutation", Ints{0, 2}}}),
      });
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
