// Split.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
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
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Split cuts into equal parts") { check(cases()); }

TEST_CASE("parts of a split that nobody reads have zero gradients") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{2, 2});
  const Output dx = gradients({square(split(x, 2, 1)[1])}, {x})[0];
  CHECK(!difference(evaluate(dx, {{x, matrix({{1, 2}, {3, 4}})}}), matrix({{0, 4}, {0, 8}})));
}

}  // namespace troupe
