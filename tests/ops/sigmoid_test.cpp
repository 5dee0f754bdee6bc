// Sigmoid.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return unary_cases(
      "Sigmoid", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-1, 0.25}})},
           .expected = {matrix(
               {{0.5, 0.7310585786300049}, {0.2689414213699951, 0.5621765008857981}})}},
          {.name = "size one", .inputs = {vector({2})}, .expected = {vector({0.8807970779778823})}},
          {.name = "100 either way",
           .inputs = {vector({100, -100})},
           .expected = {vector({1, 3.720075976020836e-44})}},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({1, 0, NAN})},
           .smooth = false},
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Sigmoid saturates at zero and one") { check(cases()); }

}  // namespace troupe
