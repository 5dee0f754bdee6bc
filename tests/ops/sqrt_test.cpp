// Sqrt.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {
      .values =
          {
              {.name = "a matrix",
               .op = "Sqrt",
               .inputs = {matrix({{1, 2}, {0.25, 16}})},
               .expected = {matrix({{1, 1.4142135623730951}, {0.5, 4}})}},
              {.name = "size one",
               .op = "Sqrt",
               .inputs = {vector({9})},
               .expected = {vector({3})}},
              {.name = "zero, negative, infinity and NaN",
               .op = "Sqrt",
               .inputs = {vector({0, -1, INFINITY, NAN})},
               .expected = {vector({0, NAN, INFINITY, NAN})},
               .smooth = false},
              {.name = "tiny and huge",
               .op = "Sqrt",
               .inputs = {vector({1e-30, 1e30})},
               .expected = {vector({1e-15, 1e15})},
               .smooth = false},
              {.name = "empty",
               .op = "Sqrt",
               .inputs = {zeros({3, 0})},
               .expected = {zeros({3, 0})}},
          },
      .errors = {
          {.op = "Sqrt",
           .inputs = {i32(zeros({2}))},
           .message = "has no kernel for i32; cast to one of f32, f64"},
          {.op = "Sqrt", .inputs = {zeros({2}), zeros({2})}, .message = "wants 1 input (x), got 2"},
      }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Sqrt takes square roots as IEEE 754 says") { check(cases()); }

}  // namespace troupe
