// Split.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "rows",
                   .op = "Split",
                   .inputs = {matrix({{1, 2}, {3, 4}})},
                   .attrs = {{"parts", int64_t{2}}, {"axis", int64_t{0}}},
                   .expected = {matrix({{1, 2}}), matrix({{3, 4}})}},
                  {.name = "columns",
                   .op = "Split",
                   .inputs = {matrix({{1, 2, 3, 4}, {5, 6, 7, 8}})},
                   .attrs = {{"parts", int64_t{2}}, {"axis", int64_t{-1}}},
                   .expected = {matrix({{1, 2}, {5, 6}}), matrix({{3, 4}, {7, 8}})}},
                  {.name = "in the middle",
                   .op = "Split",
                   .inputs = {iota({2, 3, 1})},
                   .attrs = {{"parts", int64_t{3}}, {"axis", int64_t{1}}},
                   .expected = {values({2, 1, 1}, {0, 3}), values({2, 1, 1}, {1, 4}),
                                values({2, 1, 1}, {2, 5})}},
                  {.name = "one part of size one",
                   .op = "Split",
                   .inputs = {vector({1})},
                   .attrs = {{"parts", int64_t{1}}, {"axis", int64_t{0}}},
                   .expected = {vector({1})}},
                  {.name = "empty",
                   .op = "Split",
                   .inputs = {zeros({0, 2})},
                   .attrs = {{"parts", int64_t{2}}, {"axis", int64_t{0}}},
                   .expected = {zeros({0, 2}), zeros({0, 2})}},
              },
          .errors = {
              {.op = "Split",
               .inputs = {zeros({3})},
               .attrs = {{"parts", int64_t{2}}, {"axis", int64_t{0}}},
               .message = "cannot cut [3] into 2 equal parts along axis 0"},
              {.op = "Split",
               .inputs = {zeros({3})},
               .attrs = {{"parts", int64_t{0}}, {"axis", int64_t{0}}},
               .message = "splits into 1 to 65536 parts, not 0"},
              {.op = "Split",
               .inputs = {zeros({3})},
               .attrs = {{"parts", int64_t{3}}, {"axis", int64_t{1}}},
               .message = "axis 1 is not there"},
              {.op = "Split",
               .inputs = {scalar(1)},
               .attrs = {{"parts", int64_t{1}}, {"axis", int64_t{0}}},
               .message = "axis 0 is not there"},
          }};
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
