// Square.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "a matrix",
                   .op = "Square",
                   .inputs = {matrix({{1, -2}, {0.5, 4}})},
                   .expected = {matrix({{1, 4}, {0.25, 16}})}},
                  {.name = "size one",
                   .op = "Square",
                   .inputs = {vector({3})},
                   .expected = {vector({9})}},
                  {.name = "too large for f32",
                   .op = "Square",
                   .inputs = {vector({1e30})},
                   .expected = {vector({1e60})},
                   .smooth = false},
                  {.name = "empty",
                   .op = "Square",
                   .inputs = {zeros({3, 0})},
                   .expected = {zeros({3, 0})}},
              },
          .errors = {
              {.op = "Square",
               .inputs = {booleans(zeros({2}))},
               .message = "has no kernel for bool; cast to one of f32, f64"},
              {.op = "Square",
               .inputs = {zeros({2}), zeros({2})},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Square multiplies by itself") { check(cases()); }

}  // namespace troupe
