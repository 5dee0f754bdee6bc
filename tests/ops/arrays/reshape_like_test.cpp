// ReshapeLike.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
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
const ListedCases listed(cases);

}  // namespace

TEST_CASE("ReshapeLike takes the shape of another value") { check(cases()); }

}  // namespace troupe
