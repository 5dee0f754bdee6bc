// Negate.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return unary_cases(
      "Negate", booleans(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, -2}, {0.5, 4}})},
           .expected = {matrix({{-1, 2}, {-0.5, -4}})}},
          {.name = "size one", .inputs = {vector({3})}, .expected = {vector({-3})}},
          {.name = "integers", .inputs = {vector({3, -4})}, .expected = {vector({-3, 4})}},
          {.name = "infinity and NaN",
           .inputs = {vector({INFINITY, NAN})},
           .expected = {vector({-INFINITY, NAN})},
           .smooth = false},
          {.name = "the least i32 wraps around",
           .inputs = {i32(vector({-2147483648.0}))},
           .expected = {i32(vector({-2147483648.0}))},
           .as_written = true},
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Negate changes the sign") { check(cases()); }

}  // namespace troupe
