// Sin, Cos, Tan, Asin, Acos and Atan.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases sin_cases() {
  return unary_cases(
      "Sin", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-2, 0.25}})},
           .expected = {matrix(
               {{0, 0.8414709848078965}, {-0.9092974268256817, 0.24740395925452294}})}},
          {.name = "size one",
           .inputs = {vector({4})},
           .expected = {vector({-0.7568024953079282})}},
          {.name = "many turns",
           .inputs = {vector({100, -1000, 1048576})},
           .expected = {vector({-0.5063656411097588, -0.8268795405320025, 0.3304931400217347})},
           .smooth = false},
          {.name = "more turns than f64 can count",
           .inputs = {vector({1e22, -10000000000, 0x1p60})},
           .expected = {vector({-0.8522008497671888, 0.4875060250875107, -0.8306492176372546})},
           .as_written = true,
           .smooth = false},
          {.name = "close to zero",
           .inputs = {vector({1e-10, -1e-20})},
           .expected = {vector({1e-10, -1e-20})},
           .tolerance = 1e-24,
           .as_written = true,
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({NAN, NAN, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_sin(sin_cases);

OpCases cos_cases() {
  return unary_cases(
      "Cos", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-2, 0.25}})},
           .expected = {matrix(
               {{1, 0.5403023058681398}, {-0.4161468365471424, 0.9689124217106447}})}},
          {.name = "size one",
           .inputs = {vector({4})},
           .expected = {vector({-0.6536436208636119})}},
          {.name = "many turns",
           .inputs = {vector({100, -1000, 1048576})},
           .expected = {vector({0.8623188722876839, 0.5623790762907029, 0.943808393901312})},
           .smooth = false},
          {.name = "more turns than f64 can count",
           .inputs = {vector({1e22, -10000000000, 0x1p60})},
           .expected = {vector({0.523214785395139, 0.873119622676856, -0.5567960822766417})},
           .as_written = true,
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({NAN, NAN, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_cos(cos_cases);

OpCases tan_cases() {
  return unary_cases(
      "Tan", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-2, 0.25}})},
           .expected = {matrix(
               {{0, 1.5574077246549023}, {2.185039863261519, 0.25534192122103627}})}},
          {.name = "size one", .inputs = {vector({4})}, .expected = {vector({1.1578212823495775})}},
          {.name = "many turns",
           .inputs = {vector({100, -1000, 1048576})},
           .expected = {vector({-0.5872139151569291, -1.4703241557027185, 0.350169740126609})},
           .smooth = false},
          {.name = "more turns than f64 can count",
           .inputs = {vector({1e22, -10000000000, 0x1p60})},
           .expected = {vector({-1.6287782256068988, 0.5583496378112418, 1.4918373962705977})},
           .as_written = true,
           .smooth = false},
          {.name = "close to zero",
           .inputs = {vector({1e-10, -1e-20})},
           .expected = {vector({1e-10, -1e-20})},
           .tolerance = 1e-24,
           .as_written = true,
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({NAN, NAN, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_tan(tan_cases);

OpCases asin_cases() {
  return unary_cases("Asin", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 0.5}, {-0.75, 0.25}})},
                          .expected = {matrix({{0, 0.5235987755982989},
                                               {-0.848062078981481, 0.25268025514207865}})}},
                         {.name = "size one",
                          .inputs = {vector({-0.1})},
                          .expected = {vector({-0.1001674211615598})}},
                         {.name = "the ends",
                          .inputs = {vector({1, -1})},
                          .expected = {vector({1.5707963267948966, -1.5707963267948966})},
                          .smooth = false},
                         {.name = "outside",
                          .inputs = {vector({1.5, -2, INFINITY, -INFINITY, NAN})},
                          .expected = {vector({NAN, NAN, NAN, NAN, NAN})},
                          .smooth = false},
                         {.name = "close to zero",
                          .inputs = {vector({1e-10, -1e-20})},
                          .expected = {vector({1e-10, -1e-20})},
                          .tolerance = 1e-24,
                          .as_written = true,
                          .smooth = false},
                         {.name = "close to one",
                          .inputs = {vector({1 - 0x1p-50})},
                          .expected = {vector({1.570796284648048})},
                          .tolerance = 1e-15,
                          .as_written = true,
                          .smooth = false},
                     });
}
const ListedCases listed_asin(asin_cases);

OpCases acos_cases() {
  return unary_cases("Acos", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 0.5}, {-0.75, 0.25}})},
                          .expected = {matrix({{1.5707963267948966, 1.0471975511965979},
                                               {2.4188584057763776, 1.318116071652818}})}},
                         {.name = "size one",
                          .inputs = {vector({-0.1})},
                          .expected = {vector({1.6709637479564565})}},
                         {.name = "the ends",
                          .inputs = {vector({1, -1})},
                          .expected = {vector({0, 3.141592653589793})},
                          .smooth = false},
                         {.name = "outside",
                          .inputs = {vector({1.5, -2, INFINITY, -INFINITY, NAN})},
                          .expected = {vector({NAN, NAN, NAN, NAN, NAN})},
                          .smooth = false},
                         {.name = "close to one",
                          .inputs = {vector({1 - 0x1p-50})},
                          .expected = {vector({4.2146848510894035e-08})},
                          .tolerance = 1e-15,
                          .as_written = true,
                          .smooth = false},
                     });
}
const ListedCases listed_acos(acos_cases);

OpCases atan_cases() {
  return unary_cases("Atan", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-2, 0.25}})},
                          .expected = {matrix({{0, 0.7853981633974483},
                                               {-1.1071487177940904, 0.24497866312686414}})}},
                         {.name = "size one",
                          .inputs = {vector({10})},
                          .expected = {vector({1.4711276743037347})}},
                         {.name = "close to zero",
                          .inputs = {vector({1e-10, -1e-20})},
                          .expected = {vector({1e-10, -1e-20})},
                          .tolerance = 1e-24,
                          .as_written = true,
                          .smooth = false},
                         {.name = "huge",
                          .inputs = {vector({1e30, -1e30})},
                          .expected = {vector({1.5707963267948966, -1.5707963267948966})},
                          .smooth = false},
                         {.name = "infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .expected = {vector({1.5707963267948966, -1.5707963267948966, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_atan(atan_cases);

}  // namespace

TEST_CASE("Sin of any number of turns") { check(sin_cases()); }

TEST_CASE("Cos of any number of turns") { check(cos_cases()); }

TEST_CASE("Tan of any number of turns") { check(tan_cases()); }

TEST_CASE("Asin is an angle for what is in [-1, 1]") { check(asin_cases()); }

TEST_CASE("Acos is an angle for what is in [-1, 1]") { check(acos_cases()); }

TEST_CASE("Atan ends at a quarter turn") { check(atan_cases()); }

}  // namespace troupe
