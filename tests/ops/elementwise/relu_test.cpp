// Relu.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return unary_cases(
      "Relu", booleans(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, -2}, {0.5, -4}})},
           .expected = {matrix({{1, 0}, {0.5, 0}})}},
          {.name = "size one", .inputs = {vector({3})}, .expected = {vector({3})}},
          {.name = "a long one",
           .inputs = {iota({37}, -18.5)},
           .expected = {values(
               {37}, {0,   0,   0,   0,    0,    0,    0,    0,    0,    0,    0,   0,   0,
                      0,   0,   0,   0,    0,    0,    0.5,  1.5,  2.5,  3.5,  4.5, 5.5, 6.5,
                      7.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5})}},
          {.name = "zero, infinities and NaN",
           .inputs = {vector({0, INFINITY, -INFINITY, NAN})},
           .expected = {vector({0, INFINITY, 0, NAN})},
           .smooth = false},
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Relu cuts off what is below zero, and keeps NaN") { check(cases()); }

}  // namespace troupe
