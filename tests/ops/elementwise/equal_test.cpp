// Equal.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "same shape",
                   .op = "Equal",
                   .inputs = {vector({1, 0, 1}), vector({1, 1, 0})},
                   .expected = {booleans(vector({1, 0, 0}))}},
                  {.name = "negative and broken numbers",
                   .op = "Equal",
                   .inputs = {vector({-2, 0.5}), vector({-2, 0.25})},
                   .expected = {booleans(vector({1, 0}))}},
                  {.name = "size one",
                   .op = "Equal",
                   .inputs = {vector({1}), vector({1})},
                   .expected = {booleans(vector({1}))}},
                  {.name = "rows with a row",
                   .op = "Equal",
                   .inputs = {matrix({{1, 0}, {0, 1}}), vector({1, 1})},
                   .expected = {booleans(matrix({{1, 0}, {0, 1}}))}},
                  {.name = "with a scalar",
                   .op = "Equal",
                   .inputs = {vector({1, 0}), scalar(0)},
                   .expected = {booleans(vector({0, 1}))}},
                  {.name = "empty",
                   .op = "Equal",
                   .inputs = {zeros({0}), zeros({0})},
                   .expected = {booleans(zeros({0}))}},
                  {.name = "NaN and infinity",
                   .op = "Equal",
                   .inputs = {vector({NAN, INFINITY, 0}), vector({NAN, INFINITY, -0.0})},
                   .expected = {booleans(vector({0, 1, 1}))}},
              },
          .errors = {
              {.op = "Equal",
               .inputs = {zeros({2, 3}), zeros({4})},
               .message = "shapes do not broadcast: [2, 3] and [4]"},
              {.op = "Equal",
               .inputs = {zeros({2}), i32(zeros({2}))},
               .message = "compares values of one dtype, got f64 and i32; cast one of them"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Equal compares, and NaN equals nothing") { check(cases()); }

}  // namespace troupe
