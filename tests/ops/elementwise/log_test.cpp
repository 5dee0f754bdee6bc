// Log.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return unary_cases(
      "Log", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, 2}, {0.5, 10}})},
           .expected = {matrix(
               {{0, 0.6931471805599453}, {-0.6931471805599453, 2.302585092994046}})}},
          {.name = "size one", .inputs = {vector({3})}, .expected = {vector({1.0986122886681098})}},
          {.name = "zero",
           .inputs = {vector({0})},
           .expected = {vector({-INFINITY})},
           .smooth = false},
          {.name = "negative, infinity and NaN",
           .inputs = {vector({-1, INFINITY, NAN})},
           .expected = {vector({NAN, INFINITY, NAN})},
           .smooth = false},
          {.name = "tiny and huge",
           .inputs = {vector({1e-30, 1e30})},
           .expected = {vector({-69.07755278982137, 69.07755278982137})},
           .smooth = false},
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Log is the natural logarithm") { check(cases()); }

}  // namespace troupe
