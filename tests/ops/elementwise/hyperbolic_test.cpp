// Sinh, Cosh, Asinh, Acosh and Atanh.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases sinh_cases() {
  return unary_cases(
      "Sinh", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-2, 0.25}})},
           .expected = {matrix(
               {{0, 1.1752011936438014}, {-3.6268604078470186, 0.2526123168081683}})}},
          {.name = "size one", .inputs = {vector({3})}, .expected = {vector({10.017874927409903})}},
          {.name = "close to zero",
           .inputs = {vector({1e-10, -1e-20})},
           .expected = {vector({1e-10, -1e-20})},
           .tolerance = 1e-24,
           .as_written = true,
           .smooth = false},
          {.name = "100, which f32 cannot hold",
           .inputs = {vector({100, -100})},
           .expected = {vector({1.3440585709080678e43, -1.3440585709080678e43})},
           .smooth = false},
          {.name = "past f64 as well",
           .inputs = {vector({1000, -1000})},
           .expected = {vector({INFINITY, -INFINITY})},
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({INFINITY, -INFINITY, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_sinh(sinh_cases);

OpCases cosh_cases() {
  return unary_cases(
      "Cosh", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-2, 0.25}})},
           .expected = {matrix(
               {{1, 1.5430806348152437}, {3.7621956910836314, 1.0314130998795732}})}},
          {.name = "size one", .inputs = {vector({3})}, .expected = {vector({10.067661995777765})}},
          {.name = "100, which f32 cannot hold",
           .inputs = {vector({100, -100})},
           .expected = {vector({1.3440585709080678e43, 1.3440585709080678e43})},
           .smooth = false},
          {.name = "past f64 as well",
           .inputs = {vector({1000, -1000})},
           .expected = {vector({INFINITY, INFINITY})},
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({INFINITY, INFINITY, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_cosh(cosh_cases);

OpCases asinh_cases() {
  return unary_cases(
      "Asinh", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-2, 0.25}})},
           .expected = {matrix(
               {{0, 0.881373587019543}, {-1.4436354751788103, 0.24746646154726346}})}},
          {.name = "size one", .inputs = {vector({10})}, .expected = {vector({2.99822295029797})}},
          {.name = "close to zero",
           .inputs = {vector({1e-10, -1e-20})},
           .expected = {vector({1e-10, -1e-20})},
           .tolerance = 1e-24,
           .as_written = true,
           .smooth = false},
          {.name = "huge",
           .inputs = {vector({1e30, -1e30})},
           .expected = {vector({69.77069997038132, -69.77069997038132})},
           .smooth = false},
          {.name = "past the square root of f64",
           .inputs = {vector({1e300, -1e300})},
           .expected = {vector({691.4686750787737, -691.4686750787737})},
           .as_written = true,
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({INFINITY, -INFINITY, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_asinh(asinh_cases);

OpCases acosh_cases() {
  return unary_cases("Acosh", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{1.5, 2}, {3, 10}})},
                          .expected = {matrix({{0.9624236501192069, 1.3169578969248168},
                                               {1.762747174039086, 2.993222846126381}})}},
                         {.name = "size one",
                          .inputs = {vector({1.25})},
                          .expected = {vector({0.6931471805599453})}},
                         {.name = "close to one",
                          .inputs = {vector({1 + 0x1p-40})},
                          .expected = {vector({1.3486991523485068e-06})},
                          .tolerance = 1e-20,
                          .as_written = true,
                          .smooth = false},
                         {.name = "huge",
                          .inputs = {vector({1e30})},
                          .expected = {vector({69.77069997038132})},
                          .smooth = false},
                         {.name = "past the square root of f64",
                          .inputs = {vector({1e300})},
                          .expected = {vector({691.4686750787737})},
                          .as_written = true,
                          .smooth = false},
                         {.name = "one and below, infinities and NaN",
                          .inputs = {vector({1, 0.5, -2, INFINITY, -INFINITY, NAN})},
                          .expected = {vector({0, NAN, NAN, INFINITY, NAN, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_acosh(acosh_cases);

OpCases atanh_cases() {
  return unary_cases("Atanh", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 0.5}, {-0.75, 0.25}})},
                          .expected = {matrix({{0, 0.5493061443340549},
                                               {-0.9729550745276566, 0.25541281188299536}})}},
                         {.name = "size one",
                          .inputs = {vector({-0.1})},
                          .expected = {vector({-0.10033534773107558})}},
                         {.name = "close to zero",
                          .inputs = {vector({1e-10, -1e-20})},
                          .expected = {vector({1e-10, -1e-20})},
                          .tolerance = 1e-24,
                          .as_written = true,
                          .smooth = false},
                         {.name = "close to one",
                          .inputs = {vector({1 - 0x1p-50})},
                          .expected = {vector({17.675253104278607})},
                          .tolerance = 1e-12,
                          .as_written = true,
                          .smooth = false},
                         {.name = "the ends",
                          .inputs = {vector({1, -1})},
                          .expected = {vector({INFINITY, -INFINITY})},
                          .smooth = false},
                         {.name = "outside",
                          .inputs = {vector({1.5, -2, INFINITY, -INFINITY, NAN})},
                          .expected = {vector({NAN, NAN, NAN, NAN, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_atanh(atanh_cases);

}  // namespace

TEST_CASE("Sinh overflows on both sides") { check(sinh_cases()); }

TEST_CASE("Cosh overflows on both sides") { check(cosh_cases()); }

TEST_CASE("Asinh undoes Sinh") { check(asinh_cases()); }

TEST_CASE("Acosh undoes Cosh") { check(acosh_cases()); }

TEST_CASE("Atanh has infinities at its ends") { check(atanh_cases()); }

TEST_CASE("the gradients of Asinh and Acosh do not overflow before the functions do") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{1});
  for (const Output y : {asinh(x), acosh(x)}) {
    const float slope = evaluate(gradients({y}, {x})[0], {{x, f32(vector({1e30}))}}).item<float>();
    CHECK(slope == doctest::Approx(1e-30).epsilon(1e-4).scale(0));
  }
}

}  // namespace troupe
