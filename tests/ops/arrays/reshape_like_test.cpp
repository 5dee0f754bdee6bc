// ReshapeLike.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "a matrix",
                   .op = "ReshapeLike",
                   .inputs = {matrix({{1, 2, 3}, {4, 5, 6}}), zeros({3, 2})},
                   .expected = {matrix({{1, 2}, {3, 4}, {5, 6}})}},
                  {.name = "size one",
                   .op = "ReshapeLike",
                   .inputs = {vector({1}), scalar(5)},
                   .expected = {scalar(1)}},
                  {.name = "empty",
                   .op = "ReshapeLike",
                   .inputs = {zeros({0, 3}), zeros({0})},
                   .expected = {zeros({0})}},
              },
          .errors = {
              {.op = "ReshapeLike",
               .inputs = {zeros({2, 3}), zeros({4})},
               .message = "the 6 elements of [2, 3] do not fit into [4]"},
              {.op = "ReshapeLike",
               .inputs = {zeros({2}), i32(zeros({2}))},
               .message = "inputs must have one dtype"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("ReshapeLike takes the shape of another value") { check(cases()); }

}  // namespace troupe
