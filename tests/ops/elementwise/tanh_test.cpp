// Tanh.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return unary_cases(
      "Tanh", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-1, 0.25}})},
           .expected = {matrix(
               {{0, 0.7615941559557649}, {-0.7615941559557649, 0.24491866240370913}})}},
          {.name = "size one",
           .inputs = {vector({0.1})},
           .expected = {vector({0.09966799462495582})}},
          {.name = "50 either way", .inputs = {vector({50, -50})}, .expected = {vector({1, -1})}},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({1, -1, NAN})},
           .smooth = false},
          {.name = "close to zero",
           .inputs = {vector({1e-4, -1e-8})},
           .expected = {vector({9.999999966666667e-05, -1e-8})}},
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Tanh saturates at one") { check(cases()); }

}  // namespace troupe
