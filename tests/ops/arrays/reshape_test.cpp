// Reshape.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "a matrix",
                   .op = "Reshape",
                   .inputs = {matrix({{1, 2, 3}, {4, 5, 6}})},
                   .attrs = {{"shape", Shape{3, 2}}},
                   .expected = {matrix({{1, 2}, {3, 4}, {5, 6}})}},
                  {.name = "to a vector",
                   .op = "Reshape",
                   .inputs = {matrix({{1, 2}, {3, 4}})},
                   .attrs = {{"shape", Shape{-1}}},
                   .expected = {vector({1, 2, 3, 4})}},
                  {.name = "one size left open",
                   .op = "Reshape",
                   .inputs = {iota({2, 3, 2})},
                   .attrs = {{"shape", Shape{3, -1}}},
                   .expected = {iota({3, 4})}},
                  {.name = "a scalar",
                   .op = "Reshape",
                   .inputs = {vector({1})},
                   .attrs = {{"shape", Shape{}}},
                   .expected = {scalar(1)}},
                  {.name = "empty",
                   .op = "Reshape",
                   .inputs = {zeros({0, 3})},
                   .attrs = {{"shape", Shape{3, 0}}},
                   .expected = {zeros({3, 0})}},
                  {.name = "empty with one size left open",
                   .op = "Reshape",
                   .inputs = {zeros({0, 3})},
                   .attrs = {{"shape", Shape{-1, 3}}},
                   .expected = {zeros({0, 3})}},
              },
          .errors = {
              {.op = "Reshape",
               .inputs = {zeros({4})},
               .attrs = {{"shape", Shape{3, 2}}},
               .message = "the 4 elements of [4] do not fit into [3, 2]"},
              {.op = "Reshape",
               .inputs = {zeros({2, 3})},
               .attrs = {{"shape", Shape{4}}},
               .message = "the 6 elements of [2, 3] do not fit into [4]"},
              {.op = "Reshape",
               .inputs = {zeros({2, 3})},
               .attrs = {{"shape", Shape{4, -1}}},
               .message = "the 6 elements of [2, 3] do not fit into [4, -1]"},
              {.op = "Reshape",
               .inputs = {zeros({2, 3})},
               .attrs = {{"shape", Shape{-1, -1}}},
               .message = "only one size may be -1, got [-1, -1]"},
              {.op = "Reshape",
               .inputs = {zeros({0})},
               .attrs = {{"shape", Shape{0, -1}}},
               .message = "do not fit into [0, -1]"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Reshape keeps the elements") { check(cases()); }

TEST_CASE("reshape copies nothing") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2, 3});
  const Tensor value = f32(iota({2, 3}));
  CHECK(evaluate(reshape(x, {3, 2}), {{x, value}}).raw() == value.raw());
}

}  // namespace troupe
