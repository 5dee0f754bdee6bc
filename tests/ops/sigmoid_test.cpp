// Sigmoid.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "a matrix",
                   .op = "Sigmoid",
                   .inputs = {matrix({{0, 1}, {-1, 0.25}})},
                   .expected = {matrix(
                       {{0.5, 0.7310585786300049}, {0.2689414213699951, 0.5621765008857981}})}},
                  {.name = "size one",
                   .op = "Sigmoid",
                   .inputs = {vector({2})},
                   .expected = {vector({0.8807970779778823})}},
                  {.name = "100 either way",
                   .op = "Sigmoid",
                   .inputs = {vector({100, -100})},
                   .expected = {vector({1, 3.720075976020836e-44})}},
                  {.name = "infinities and NaN",
                   .op = "Sigmoid",
                   .inputs = {vector({INFINITY, -INFINITY, NAN})},
                   .expected = {vector({1, 0, NAN})},
                   .smooth = false},
                  {.name = "empty",
                   .op = "Sigmoid",
                   .inputs = {zeros({3, 0})},
                   .expected = {zeros({3, 0})}},
              },
          .errors = {
              {.op = "Sigmoid",
               .inputs = {i32(zeros({2}))},
               .message = "has no kernel for i32; cast to one of f32, f64"},
              {.op = "Sigmoid",
               .inputs = {zeros({2}), zeros({2})},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Sigmoid saturates at zero and one") { check(cases()); }

}  // namespace troupe
