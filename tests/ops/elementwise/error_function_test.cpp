// Erf, Erfc and Erfinv.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases erf_cases() {
  return unary_cases("Erf", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-2, 0.25}})},
                          .expected = {matrix({{0, 0.8427007929497149},
                                               {-0.9953222650189527, 0.27632639016823696}})}},
                         {.name = "size one",
                          .inputs = {vector({0.75})},
                          .expected = {vector({0.7111556336535151})}},
                         {.name = "close to zero",
                          .inputs = {vector({1e-10, -1e-20})},
                          .expected = {vector({1.1283791670955126e-10, -1.1283791670955125e-20})},
                          .tolerance = 1e-24,
                          .as_written = true,
                          .smooth = false},
                         {.name = "where it is one in f64",
                          .inputs = {vector({10, -10})},
                          .expected = {vector({1, -1})}},
                         {.name = "infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .expected = {vector({1, -1, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_erf(erf_cases);

OpCases erfc_cases() {
  return unary_cases(
      "Erfc", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-2, 0.25}})},
           .expected = {matrix(
               {{1, 0.15729920705028513}, {1.9953222650189528, 0.7236736098317631}})}},
          {.name = "size one",
           .inputs = {vector({0.75})},
           .expected = {vector({0.28884436634648486})}},
          {.name = "the tail",
           .inputs = {vector({10})},
           .expected = {vector({2.088487583762545e-45})},
           .tolerance = 1e-57,
           .as_written = true,
           .smooth = false},
          {.name = "the end of the tail",
           .inputs = {vector({26})},
           .expected = {vector({5.663192408856143e-296})},
           .tolerance = 1e-308,
           .as_written = true,
           .smooth = false},
          {.name = "either end", .inputs = {vector({30, -10})}, .expected = {vector({0, 2})}},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({0, 2, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_erfc(erfc_cases);

OpCases erfinv_cases() {
  return unary_cases(
      "Erfinv", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 0.5}, {-0.75, 0.25}})},
           .expected = {matrix(
               {{0, 0.4769362762044699}, {-0.8134198475976185, 0.2253120550121781}})}},
          {.name = "size one",
           .inputs = {vector({-0.1})},
           .expected = {vector({-0.08885599049425769})}},
          {.name = "close to zero",
           .inputs = {vector({1e-10, -1e-20})},
           .expected = {vector({8.862269254527581e-11, -8.86226925452758e-21})},
           .tolerance = 1e-24,
           .as_written = true,
           .smooth = false},
          {.name = "where the centre meets the tail",
           .inputs = {vector({0.84, -0.86})},
           .expected = {vector({0.9935356283473041, -1.0435418436397588})},
           .gradient_tolerance = 1e-5},
          {.name = "in the tail",
           .inputs = {vector({0.9375, -0.984375})},
           .expected = {vector({1.3171503349861307, -1.7094723742995115})},
           .smooth = false},
          {.name = "close to one",
           .inputs = {vector({1 - 0x1p-30, -1 + 0x1p-50, 1 - 0x1p-53})},
           .expected = {vector({4.328028275800946, -5.686128441310391, 5.8635847487551676})},
           .tolerance = 1e-14,
           .as_written = true,
           .smooth = false},
          {.name = "one, minus one, and beyond",
           .inputs = {vector({1, -1, 1.5, -2, INFINITY, -INFINITY, NAN})},
           .expected = {vector({INFINITY, -INFINITY, NAN, NAN, NAN, NAN, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_erfinv(erfinv_cases);

}  // namespace

TEST_CASE("Erf ends at one") { check(erf_cases()); }

TEST_CASE("Erfc is exact in its tail") { check(erfc_cases()); }

TEST_CASE("Erfinv undoes Erf") { check(erfinv_cases()); }

}  // namespace troupe
