// Divide.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "same shape",
                   .op = "Divide",
                   .inputs = {vector({6, -8, 9}), vector({2, 4, 3})},
                   .expected = {vector({3, -2, 3})}},
                  {.name = "size one",
                   .op = "Divide",
                   .inputs = {vector({1}), vector({8})},
                   .expected = {vector({0.125})}},
                  {.name = "rows by a row",
                   .op = "Divide",
                   .inputs = {matrix({{2, 6}, {4, 9}}), vector({2, 3})},
                   .expected = {matrix({{1, 2}, {2, 3}})}},
                  {.name = "a scalar by every element",
                   .op = "Divide",
                   .inputs = {scalar(12), vector({1, 2, 3})},
                   .expected = {vector({12, 6, 4})}},
                  {.name = "empty",
                   .op = "Divide",
                   .inputs = {zeros({0}), scalar(2)},
                   .expected = {zeros({0})}},
                  {.name = "no integers by zero",
                   .op = "Divide",
                   .inputs = {i32(zeros({0})), i32(vector({0}))},
                   .expected = {i32(zeros({0}))},
                   .as_written = true},
                  {.name = "floats by zero",
                   .op = "Divide",
                   .inputs = {f32(vector({1, -1, 0})), f32(vector({0, 0, 0}))},
                   .expected = {f32(vector({INFINITY, -INFINITY, NAN}))},
                   .as_written = true,
                   .smooth = false},
                  {.name = "integers are cut towards zero",
                   .op = "Divide",
                   .inputs = {i32(vector({7, -7, 7, -7})), i32(vector({2, 2, -2, -2}))},
                   .expected = {i32(vector({3, -3, -3, 3}))},
                   .as_written = true},
                  {.name = "the least integer by -1 wraps around",
                   .op = "Divide",
                   .inputs = {i32(vector({-2147483648.0})), i32(vector({-1}))},
                   .expected = {i32(vector({-2147483648.0}))},
                   .as_written = true},
              },
          .errors = {
              {.op = "Divide",
               .inputs = {zeros({2, 3}), zeros({4})},
               .message = "shapes do not broadcast: [2, 3] and [4]"},
              {.op = "Divide",
               .inputs = {zeros({2}), i32(zeros({2}))},
               .message = "inputs must have one dtype, got f64 and i32"},
              {.op = "Divide",
               .inputs = {booleans(zeros({2})), booleans(zeros({2}))},
               .message = "has no kernel for bool"},
              {.op = "Divide",
               .inputs = {i32(vector({1, 2})), i32(vector({1, 0}))},
               .message = "divides an integer by zero: element 1 of b",
               .when_run = true},
              {.op = "Divide",
               .inputs = {u8(vector({1, 2})), u8(scalar(0))},
               .message = "divides an integer by zero: element 0 of b",
               .when_run = true},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Divide divides, and refuses to divide integers by zero") { check(cases()); }

}  // namespace troupe
