// Negate.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "a matrix",
                   .op = "Negate",
                   .inputs = {matrix({{1, -2}, {0.5, 4}})},
                   .expected = {matrix({{-1, 2}, {-0.5, -4}})}},
                  {.name = "size one",
                   .op = "Negate",
                   .inputs = {vector({3})},
                   .expected = {vector({-3})}},
                  {.name = "integers",
                   .op = "Negate",
                   .inputs = {vector({3, -4})},
                   .expected = {vector({-3, 4})}},
                  {.name = "infinity and NaN",
                   .op = "Negate",
                   .inputs = {vector({INFINITY, NAN})},
                   .expected = {vector({-INFINITY, NAN})},
                   .smooth = false},
                  {.name = "the least i32 wraps around",
                   .op = "Negate",
                   .inputs = {i32(vector({-2147483648.0}))},
                   .expected = {i32(vector({-2147483648.0}))},
                   .as_written = true},
                  {.name = "empty",
                   .op = "Negate",
                   .inputs = {zeros({3, 0})},
                   .expected = {zeros({3, 0})}},
              },
          .errors = {
              {.op = "Negate",
               .inputs = {booleans(zeros({2}))},
               .message = "has no kernel for bool; cast to one of f32, f64"},
              {.op = "Negate",
               .inputs = {zeros({2}), zeros({2})},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Negate changes the sign") { check(cases()); }

}  // namespace troupe
