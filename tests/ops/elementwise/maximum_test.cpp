// Maximum.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "same shape",
                   .op = "Maximum",
                   .inputs = {vector({5, -7, 9}), vector({1, 2, 30})},
                   .expected = {vector({5, 2, 30})}},
                  {.name = "size one",
                   .op = "Maximum",
                   .inputs = {vector({0.5}), vector({2.5})},
                   .expected = {vector({2.5})}},
                  {.name = "a row with every row",
                   .op = "Maximum",
                   .inputs = {matrix({{1, 2}, {3, 4}}), vector({2, 3})},
                   .expected = {matrix({{2, 3}, {3, 4}})}},
                  {.name = "against a scalar",
                   .op = "Maximum",
                   .inputs = {vector({1, 2, 3}), scalar(2.5)},
                   .expected = {vector({2.5, 2.5, 3})}},
                  {.name = "of equals either",
                   .op = "Maximum",
                   .inputs = {vector({1}), vector({1})},
                   .expected = {vector({1})},
                   .smooth = false},
                  {.name = "empty",
                   .op = "Maximum",
                   .inputs = {zeros({0}), scalar(2)},
                   .expected = {zeros({0})}},
                  {.name = "NaN on either side",
                   .op = "Maximum",
                   .inputs = {vector({NAN, 1, NAN}), vector({1, NAN, NAN})},
                   .expected = {vector({NAN, NAN, NAN})},
                   .smooth = false},
                  {.name = "infinities",
                   .op = "Maximum",
                   .inputs = {vector({-INFINITY, INFINITY}), vector({1, 1})},
                   .expected = {vector({1, INFINITY})},
                   .smooth = false},
              },
          .errors = {
              {.op = "Maximum",
               .inputs = {zeros({2, 3}), zeros({4})},
               .message = "shapes do not broadcast: [2, 3] and [4]"},
              {.op = "Maximum",
               .inputs = {zeros({2}), i32(zeros({2}))},
               .message = "inputs must have one dtype, got f64 and i32"},
              {.op = "Maximum",
               .inputs = {booleans(zeros({2})), booleans(zeros({2}))},
               .message = "has no kernel for bool"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Maximum chooses the greater, and NaN") { check(cases()); }

}  // namespace troupe
