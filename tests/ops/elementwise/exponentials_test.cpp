// Expm1, Log1p, Log2, Log10, Exp2 and Cbrt.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases expm1_cases() {
  return unary_cases("Expm1", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-1, 2.5}})},
                          .expected = {matrix({{0, 1.7182818284590453},
                                               {-0.6321205588285577, 11.182493960703473}})}},
                         {.name = "size one",
                          .inputs = {vector({0.1})},
                          .expected = {vector({0.10517091807564763})}},
                         {.name = "close to zero",
                          .inputs = {vector({1e-10, -1e-10, 1e-20})},
                          .expected = {vector({1.00000000005e-10, -9.999999999500001e-11, 1e-20})},
                          .tolerance = 1e-24,
                          .as_written = true,
                          .smooth = false},
                         {.name = "far from zero",
                          .inputs = {vector({100, -100, 1000, -1000})},
                          .expected = {vector({2.6881171418161356e43, -1, INFINITY, -1})},
                          .smooth = false},
                         {.name = "infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .expected = {vector({INFINITY, -1, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_expm1(expm1_cases);

OpCases log1p_cases() {
  return unary_cases("Log1p", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-0.5, 2.5}})},
                          .expected = {matrix({{0, 0.6931471805599453},
                                               {-0.6931471805599453, 1.252762968495368}})}},
                         {.name = "size one",
                          .inputs = {vector({0.1})},
                          .expected = {vector({0.09531017980432487})}},
                         {.name = "close to zero",
                          .inputs = {vector({1e-10, -1e-10, 1e-20})},
                          .expected = {vector({9.999999999500001e-11, -1.00000000005e-10, 1e-20})},
                          .tolerance = 1e-24,
                          .as_written = true,
                          .smooth = false},
                         {.name = "large",
                          .inputs = {vector({1e30})},
                          .expected = {vector({69.07755278982137})},
                          .smooth = false},
                         {.name = "-1 and below, infinities and NaN",
                          .inputs = {vector({-1, -2, INFINITY, -INFINITY, NAN})},
                          .expected = {vector({-INFINITY, NAN, INFINITY, NAN, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_log1p(log1p_cases);

OpCases log2_cases() {
  return unary_cases(
      "Log2", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, 2}, {0.25, 10}})},
           .expected = {matrix({{0, 1}, {-2, 3.321928094887362}})}},
          {.name = "size one", .inputs = {vector({3})}, .expected = {vector({1.584962500721156})}},
          {.name = "tiny and huge",
           .inputs = {vector({0x1p-100, 0x1p100})},
           .expected = {vector({-100, 100})},
           .smooth = false},
          {.name = "zero, negative, infinity and NaN",
           .inputs = {vector({0, -1, INFINITY, NAN})},
           .expected = {vector({-INFINITY, NAN, INFINITY, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_log2(log2_cases);

OpCases log10_cases() {
  return unary_cases(
      "Log10", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, 2}, {0.25, 10}})},
           .expected = {matrix({{0, 0.3010299956639812}, {-0.6020599913279624, 1}})}},
          {.name = "size one",
           .inputs = {vector({3})},
           .expected = {vector({0.47712125471966244})}},
          {.name = "tiny and huge",
           .inputs = {vector({1e-30, 1e30})},
           .expected = {vector({-30, 30})},
           .smooth = false},
          {.name = "zero, negative, infinity and NaN",
           .inputs = {vector({0, -1, INFINITY, NAN})},
           .expected = {vector({-INFINITY, NAN, INFINITY, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_log10(log10_cases);

OpCases exp2_cases() {
  return unary_cases("Exp2", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-1, 2.5}})},
                          .expected = {matrix({{1, 2}, {0.5, 5.656854249492381}})}},
                         {.name = "size one",
                          .inputs = {vector({0.1})},
                          .expected = {vector({1.0717734625362931})}},
                         {.name = "130, which f32 cannot hold",
                          .inputs = {vector({130})},
                          .expected = {vector({0x1p130})},
                          .smooth = false},
                         {.name = "past f64 as well",
                          .inputs = {vector({2000, -2000})},
                          .expected = {vector({INFINITY, 0})},
                          .smooth = false},
                         {.name = "infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .expected = {vector({INFINITY, 0, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_exp2(exp2_cases);

OpCases cbrt_cases() {
  return unary_cases(
      "Cbrt", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, -2}, {27, 0.5}})},
           .expected = {matrix({{1, -1.2599210498948732}, {3, 0.7937005259840998}})}},
          {.name = "size one", .inputs = {vector({-8})}, .expected = {vector({-2})}},
          {.name = "tiny and huge",
           .inputs = {vector({1e-30, -1e30})},
           .expected = {vector({1e-10, -10000000000})},
           .smooth = false},
          {.name = "zero, infinities and NaN",
           .inputs = {vector({0, INFINITY, -INFINITY, NAN})},
           .expected = {vector({0, INFINITY, -INFINITY, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_cbrt(cbrt_cases);

}  // namespace

TEST_CASE("Expm1 is exact close to zero") { check(expm1_cases()); }

TEST_CASE("Log1p is exact close to zero") { check(log1p_cases()); }

TEST_CASE("Log2 counts doublings") { check(log2_cases()); }

TEST_CASE("Log10 counts digits") { check(log10_cases()); }

TEST_CASE("Exp2 is two to the x") { check(exp2_cases()); }

TEST_CASE("Cbrt takes cube roots of negative numbers, too") { check(cbrt_cases()); }

}  // namespace troupe
