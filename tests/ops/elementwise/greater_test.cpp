// Greater.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "same shape",
                   .op = "Greater",
                   .inputs = {vector({1, 0, 1}), vector({1, 1, 0})},
                   .expected = {booleans(vector({0, 0, 1}))}},
                  {.name = "negative and broken numbers",
                   .op = "Greater",
                   .inputs = {vector({-2, 0.5}), vector({-3, 0.75})},
                   .expected = {booleans(vector({1, 0}))}},
                  {.name = "size one",
                   .op = "Greater",
                   .inputs = {vector({2}), vector({1})},
                   .expected = {booleans(vector({1}))}},
                  {.name = "rows with a row",
                   .op = "Greater",
                   .inputs = {matrix({{1, 0}, {3, 4}}), vector({1, 1})},
                   .expected = {booleans(matrix({{0, 0}, {1, 1}}))}},
                  {.name = "a scalar with all",
                   .op = "Greater",
                   .inputs = {scalar(1), vector({1, 0})},
                   .expected = {booleans(vector({0, 1}))}},
                  {.name = "u8 is not signed",
                   .op = "Greater",
                   .inputs = {u8(vector({200})), u8(vector({100}))},
                   .expected = {booleans(vector({1}))},
                   .as_written = true},
                  {.name = "empty",
                   .op = "Greater",
                   .inputs = {zeros({0}), zeros({0})},
                   .expected = {booleans(zeros({0}))}},
                  {.name = "NaN and infinity",
                   .op = "Greater",
                   .inputs = {vector({NAN, INFINITY, 0}), vector({0, 0, NAN})},
                   .expected = {booleans(vector({0, 1, 0}))}},
              },
          .errors = {
              {.op = "Greater",
               .inputs = {zeros({2, 3}), zeros({4})},
               .message = "shapes do not broadcast: [2, 3] and [4]"},
              {.op = "Greater",
               .inputs = {zeros({2}), i32(zeros({2}))},
               .message = "compares values of one dtype, got f64 and i32; cast one of them"},
              {.op = "Greater",
               .inputs = {booleans(zeros({1})), booleans(zeros({1}))},
               .message = "has no kernel for bool"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Greater compares, and NaN is greater than nothing") { check(cases()); }

}  // namespace troupe
