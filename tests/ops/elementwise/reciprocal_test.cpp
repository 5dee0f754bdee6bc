// Reciprocal and Rsqrt.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases reciprocal_cases() {
  return unary_cases("Reciprocal", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{1, -2}, {0.5, 3}})},
                          .expected = {matrix({{1, -0.5}, {2, 0.3333333333333333}})}},
                         {.name = "size one",
                          .inputs = {vector({-0.75})},
                          .expected = {vector({-1.3333333333333333})}},
                         {.name = "zeros, infinities and NaN",
                          .inputs = {vector({0, -0.0, INFINITY, -INFINITY, NAN})},
                          .expected = {vector({INFINITY, -INFINITY, 0, 0, NAN})},
                          .smooth = false},
                         {.name = "tiny and huge",
                          .inputs = {vector({1e-30, -1e30})},
                          .expected = {vector({1e30, -1e-30})},
                          .smooth = false},
                         {.name = "so tiny that it overflows",
                          .inputs = {vector({1e-320})},
                          .expected = {vector({INFINITY})},
                          .smooth = false},
                     });
}
const ListedCases listed_reciprocal(reciprocal_cases);

OpCases rsqrt_cases() {
  return unary_cases(
      "Rsqrt", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, 2}, {0.25, 16}})},
           .expected = {matrix({{1, 0.7071067811865476}, {2, 0.25}})}},
          {.name = "size one", .inputs = {vector({3})}, .expected = {vector({0.5773502691896257})}},
          {.name = "zeros, negative, infinity and NaN",
           .inputs = {vector({0, -0.0, -1, INFINITY, NAN})},
           .expected = {vector({INFINITY, -INFINITY, NAN, 0, NAN})},
           .smooth = false},
          {.name = "tiny and huge",
           .inputs = {vector({1e-30, 1e30})},
           .expected = {vector({1000000000000000.0, 1e-15})},
           .smooth = false},
      });
}
const ListedCases listed_rsqrt(rsqrt_cases);

}  // namespace

TEST_CASE("Reciprocal divides one") { check(reciprocal_cases()); }

TEST_CASE("Rsqrt divides one by the square root") { check(rsqrt_cases()); }

}  // namespace troupe
