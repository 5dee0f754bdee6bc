// Multiply.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "same shape",
                   .op = "Multiply",
                   .inputs = {vector({5, -7, 9}), vector({1, 2, 3})},
                   .expected = {vector({5, -14, 27})}},
                  {.name = "size one",
                   .op = "Multiply",
                   .inputs = {vector({0.5}), vector({2.5})},
                   .expected = {vector({1.25})}},
                  {.name = "a row with every row",
                   .op = "Multiply",
                   .inputs = {matrix({{1, 2}, {3, 4}}), vector({2, 3})},
                   .expected = {matrix({{2, 6}, {6, 12}})}},
                  {.name = "a scalar with every element",
                   .op = "Multiply",
                   .inputs = {scalar(3), vector({1, 2, 3})},
                   .expected = {vector({3, 6, 9})}},
                  {.name = "an outer product",
                   .op = "Multiply",
                   .inputs = {matrix({{1}, {2}}), vector({3, 4})},
                   .expected = {matrix({{3, 4}, {6, 8}})}},
                  {.name = "empty",
                   .op = "Multiply",
                   .inputs = {zeros({0}), scalar(2)},
                   .expected = {zeros({0})}},
                  {.name = "zero times infinity",
                   .op = "Multiply",
                   .inputs = {vector({0}), vector({INFINITY})},
                   .expected = {vector({NAN})},
                   .smooth = false},
                  {.name = "i32 wraps around",
                   .op = "Multiply",
                   .inputs = {i32(vector({65536, -2147483648.0})), i32(vector({65536, -1}))},
                   .expected = {i32(vector({0, -2147483648.0}))},
                   .as_written = true},
              },
          .errors = {
              {.op = "Multiply",
               .inputs = {zeros({2, 3}), zeros({4})},
               .message = "shapes do not broadcast: [2, 3] and [4]"},
              {.op = "Multiply",
               .inputs = {zeros({2}), i32(zeros({2}))},
               .message = "inputs must have one dtype, got f64 and i32"},
              {.op = "Multiply",
               .inputs = {booleans(zeros({2})), booleans(zeros({2}))},
               .message = "has no kernel for bool"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Multiply multiplies") { check(cases()); }

}  // namespace troupe
