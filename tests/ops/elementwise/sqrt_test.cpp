// Sqrt.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return unary_cases("Sqrt", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{1, 2}, {0.25, 16}})},
                          .expected = {matrix({{1, 1.4142135623730951}, {0.5, 4}})}},
                         {.name = "size one", .inputs = {vector({9})}, .expected = {vector({3})}},
                         {.name = "zero, negative, infinity and NaN",
                          .inputs = {vector({0, -1, INFINITY, NAN})},
                          .expected = {vector({0, NAN, INFINITY, NAN})},
                          .smooth = false},
                         {.name = "tiny and huge",
                          .inputs = {vector({1e-30, 1e30})},
                          .expected = {vector({1e-15, 1e15})},
                          .smooth = false},
                     });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Sqrt takes square roots as IEEE 754 says") { check(cases()); }

}  // namespace troupe
