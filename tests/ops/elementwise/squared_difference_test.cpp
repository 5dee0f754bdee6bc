// SquaredDifference.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return binary_cases(
      "SquaredDifference", booleans(zeros({2})),
      {
          {.name = "same shape",
           .inputs = {vector({5, -7, 9}), vector({1, 2, 9})},
           .expected = {vector({16, 81, 0})}},
          {.name = "broken numbers",
           .inputs = {vector({0.5, -0.25}), vector({2, 1})},
           .expected = {vector({2.25, 1.5625})}},
          {.name = "size one", .inputs = {vector({1}), vector({4})}, .expected = {vector({9})}},
          {.name = "rows with a row",
           .inputs = {matrix({{1, 2}, {3, 4}}), vector({2, 4})},
           .expected = {matrix({{1, 4}, {1, 0}})}},
          {.name = "every element with a scalar",
           .inputs = {scalar(3), vector({1, 2, 3})},
           .expected = {vector({4, 1, 0})}},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, INFINITY, NAN, 1e200}), vector({1, INFINITY, 1, -1e200})},
           .expected = {vector({INFINITY, NAN, NAN, INFINITY})},
           .smooth = false},
          {.name = "i32 wraps around",
           .inputs = {i32(vector({65536, -2147483648.0, 50000})), i32(vector({0, 1, 0}))},
           .expected = {i32(vector({0, 1, -1794967296}))},
           .as_written = true},
          {.name = "u8 wraps around",
           .inputs = {u8(vector({3, 255, 0})), u8(vector({5, 0, 16}))},
           .expected = {u8(vector({4, 1, 0}))},
           .as_written = true},
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("SquaredDifference squares differences") { check(cases()); }

}  // namespace troupe
