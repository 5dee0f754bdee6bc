// Reshape and ReshapeLike.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "Reshape",
      {
          Case("a matrix", {matrix({{1, 2, 3}, {4, 5, 6}})}, {matrix({{1, 2}, {3, 4}, {5, 6}})},
               {{"shape", Shape{3, 2}}}),
          Case("to a vector", {matrix({{1, 2}, {3, 4}})}, {vector({1, 2, 3, 4})},
               {{"shape", Shape{-1}}}),
          Case("one size left open", {iota({2, 3, 2})}, {iota({3, 4})}, {{"shape", Shape{3, -1}}}),
          Case("a scalar", {vector({1})}, {scalar(1)}, {{"shape", Shape{}}}),
          Case("empty", {zeros({0, 3})}, {zeros({3, 0})}, {{"shape", Shape{3, 0}}}),
          Case("empty with one size left open", {zeros({0, 3})}, {zeros({0, 3})},
               {{"shape", Shape{-1, 3}}}),
      },
      {
          Refused({zeros({4})}, "the 4 elements of [4] do not fit into [3, 2]",
                  {{"shape", Shape{3, 2}}}),
          Refused({zeros({2, 3})}, "the 6 elements of [2, 3] do not fit into [4]",
                  {{"shape", Shape{4}}}),
          Refused({zeros({2, 3})}, "the 6 elements of [2, 3] do not fit into [4, -1]",
                  {{"shape", Shape{4, -1}}}),
          Refused({zeros({2, 3})}, "only one size may be -1, got [-1, -1]",
                  {{"shape", Shape{-1, -1}}}),
          Refused({zeros({0})}, "do not fit into [0, -1]", {{"shape", Shape{0, -1}}}),
      });
}

OpCases like_cases() {
  return table_of(
      "ReshapeLike",
      {
          Case("a matrix", {matrix({{1, 2, 3}, {4, 5, 6}}), zeros({3, 2})},
               {matrix({{1, 2}, {3, 4}, {5, 6}})}),
          Case("size one", {vector({1}), scalar(5)}, {scalar(1)}),
          Case("empty", {zeros({0, 3}), zeros({0})}, {zeros({0})}),
      },
      {
          Refused({zeros({2, 3}), zeros({4})}, "the 6 elements of [2, 3] do not fit into [4]"),
          Refused({zeros({2}), i32(zeros({2}))}, "inputs must have one dtype"),
      });
}
const ListedCases listed(cases), listed_like(like_cases);

}  // namespace

TEST_CASE("Reshape keeps the elements") { check(cases()); }

TEST_CASE("reshape copies nothing") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2, 3});
  const Tensor value = f32(iota({2, 3}));
  CHECK(evaluate(reshape(x, {3, 2}), {{x, value}}).raw() == value.raw());
}

TEST_CASE("ReshapeLike takes the shape of another value") { check(like_cases()); }

}  // namespace troupe
