// Lgamma, Digamma and Trigamma.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases lgamma_cases() {
  return unary_cases(
      "Lgamma", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, 2.5}, {0.5, 10}})},
           .expected = {matrix(
               {{0, 0.2846828704729192}, {0.5723649429247001, 12.801827480081469}})}},
          {.name = "size one", .inputs = {vector({4})}, .expected = {vector({1.791759469228055})}},
          {.name = "negative",
           .inputs = {vector({-0.5, -1.25, -7.5})},
           .expected = {vector({1.2655121234846454, 1.3664317612369763, -8.404537371451598})},
           .gradient_tolerance = 1e-5},
          {.name = "close to one and two",
           .inputs = {vector({1 + 0x1p-40, 2 - 0x1p-40})},
           .expected = {vector({-5.249745890076018e-13, -3.845201127643794e-13})},
           .tolerance = 1e-25,
           .as_written = true,
           .smooth = false},
          {.name = "tiny and huge",
           .inputs = {vector({1e-30, 1e30})},
           .expected = {vector({69.07755278982137, 6.807755278982137e31})},
           .smooth = false},
          {.name = "past f32",
           .inputs = {vector({1e300})},
           .expected = {vector({6.897755278982137e302})},
           .as_written = true,
           .smooth = false},
          {.name = "integers that are not positive, infinities and NaN",
           .inputs = {vector({0, -1, -20, INFINITY, -INFINITY, NAN})},
           .expected = {vector({INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_lgamma(lgamma_cases);

OpCases digamma_cases() {
  OpCases cases = unary_cases(
      "Digamma", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, 2.5}, {0.5, 10}})},
           .expected = {matrix({{-0.5772156649015329, 0.7031566406452432},
                                {-1.9635100260214235, 2.251752589066721}})}},
          {.name = "size one", .inputs = {vector({4})}, .expected = {vector({1.2561176684318005})}},
          {.name = "around ten, where the series begins",
           .inputs = {vector({9.75, 10.25, 30})},
           .expected = {vector({2.225109535044576, 2.277704790686724, 3.384438132685525})}},
          {.name = "negative",
           .inputs = {vector({-0.5, -1.25, -7.5})},
           .expected = {vector({0.03648997397857652, 3.714139120213528, 2.08009081757942})},
           .gradient_tolerance = 1e-5},
          {.name = "tiny and huge",
           .inputs = {vector({0x1p-90, -0x1p-90, 1e30})},
           .expected = {vector({-0x1p90, 0x1p90, 69.07755278982137})},
           .smooth = false},
          {.name = "zeros, negative integers, infinities and NaN",
           .inputs = {vector({0, -0.0, -1, -20, INFINITY, -INFINITY, NAN})},
           .expected = {vector({-INFINITY, INFINITY, NAN, NAN, INFINITY, NAN, NAN})},
           .smooth = false},
      });
  for (OpCase& c : cases.values) c.twice = false;  // Trigamma has no gradient
  return cases;
}
const ListedCases listed_digamma(digamma_cases);

OpCases trigamma_cases() {
  return unary_cases(
      "Trigamma", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, 2.5}, {0.5, 10}})},
           .expected = {matrix({{1.6449340668482264, 0.49035775610023485},
                                {4.934802200544679, 0.10516633568168575}})}},
          {.name = "size one", .inputs = {vector({4})}, .expected = {vector({0.2838229557371153})}},
          {.name = "around ten, where the series begins",
           .inputs = {vector({9.75, 10.25, 30})},
           .expected = {vector({0.10800324333663186, 0.10247452151799187, 0.033895060357739946})}},
          {.name = "negative",
           .inputs = {vector({-0.5, -1.25, -7.5})},
           .expected = {vector({8.934802200544679, 19.181879647671607, 9.744766282170433})}},
          {.name = "huge",
           .inputs = {vector({1e30})},
           .expected = {vector({9.999999999999999e-31})},
           .tolerance = 1e-44,
           .as_written = true,
           .smooth = false},
          {.name = "tiny",
           .inputs = {vector({0x1p-50})},
           .expected = {vector({0x1p100})},
           .smooth = false},
          {.name = "integers that are not positive, infinities and NaN",
           .inputs = {vector({0, -1, -20, INFINITY, -INFINITY, NAN})},
           .expected = {vector({INFINITY, INFINITY, INFINITY, 0, NAN, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_trigamma(trigamma_cases);

}  // namespace

TEST_CASE("Lgamma is the logarithm of factorials and of what lies between") {
  check(lgamma_cases());
}

TEST_CASE("Digamma is the slope of Lgamma") { check(digamma_cases()); }

TEST_CASE("Trigamma is the slope of Digamma") { check(trigamma_cases()); }

}  // namespace troupe
