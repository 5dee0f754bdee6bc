// Where.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {
      .values =
          {
              {.name = "same shape",
               .op = "Where",
               .inputs = {booleans(vector({1, 0, 1})), vector({1, 0, 1}), vector({0, 1, 0})},
               .expected = {vector({1, 1, 1})}},
              {.name = "other numbers",
               .op = "Where",
               .inputs = {booleans(vector({1, 0, 1})), vector({1.5, 2, 3}), vector({-1, -2, -3})},
               .expected = {vector({1.5, -2, 3})}},
              {.name = "a scalar on one side",
               .op = "Where",
               .inputs = {booleans(vector({1, 0, 1})), vector({1, 2, 3}), scalar(0)},
               .expected = {vector({1, 0, 3})}},
              {.name = "a scalar on the other side",
               .op = "Where",
               .inputs = {booleans(vector({1, 0, 1})), scalar(7), vector({1, 2, 3})},
               .expected = {vector({7, 2, 7})}},
              {.name = "scalars on both sides",
               .op = "Where",
               .inputs = {booleans(vector({1, 0, 1})), scalar(7), scalar(8)},
               .expected = {vector({7, 8, 7})}},
              {.name = "one condition for all",
               .op = "Where",
               .inputs = {booleans(scalar(0)), vector({1, 2, 3}), vector({4, 5, 6})},
               .expected = {vector({4, 5, 6})}},
              {.name = "all three repeated",
               .op = "Where",
               .inputs = {booleans(matrix({{1}, {0}})), vector({1, 2, 3}), scalar(9)},
               .expected = {matrix({{1, 2, 3}, {9, 9, 9}})}},
              {.name = "a row of conditions",
               .op = "Where",
               .inputs = {booleans(vector({1, 0})), matrix({{1, 2}, {3, 4}}), matrix({{5}, {6}})},
               .expected = {matrix({{1, 5}, {3, 6}})}},
              {.name = "size one",
               .op = "Where",
               .inputs = {booleans(vector({1})), vector({1}), vector({2})},
               .expected = {vector({1})}},
              {.name = "empty",
               .op = "Where",
               .inputs = {booleans(zeros({0})), zeros({0}), scalar(1)},
               .expected = {zeros({0})}},
              {.name = "what is not chosen may be NaN",
               .op = "Where",
               .inputs = {booleans(vector({1, 0})), vector({1, NAN}), vector({NAN, 2})},
               .expected = {vector({1, 2})},
               .smooth = false},
          },
      .errors = {
          {.op = "Where",
           .inputs = {zeros({2}), zeros({2}), zeros({2})},
           .message = "wants a bool condition, got f64; compare it with something"},
          {.op = "Where",
           .inputs = {booleans(zeros({2})), zeros({2}), i32(zeros({2}))},
           .message = "chooses between values of one dtype, got f64 and i32; cast one of them"},
          {.op = "Where",
           .inputs = {booleans(zeros({2})), zeros({3}), zeros({1})},
           .message = "shapes do not broadcast: [2] and [3]"},
      }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Where chooses between two values") { check(cases()); }

}  // namespace troupe
