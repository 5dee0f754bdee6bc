// Abs and Sign.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases abs_cases() {
  return unary_cases(
      "Abs", booleans(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, -2}, {3, -4}})},
           .expected = {matrix({{1, 2}, {3, 4}})}},
          {.name = "size one", .inputs = {vector({-0.5})}, .expected = {vector({0.5})}},
          {.name = "zero, infinities and NaN",
           .inputs = {vector({0, INFINITY, -INFINITY, NAN})},
           .expected = {vector({0, INFINITY, INFINITY, NAN})},
           .smooth = false},
          {.name = "the least i32, which wraps around",
           .inputs = {Tensor::of<int32_t>({INT32_MIN, INT32_MIN + 1}, Shape{2})},
           .expected = {Tensor::of<int32_t>({INT32_MIN, INT32_MAX}, Shape{2})},
           .as_written = true},
          {.name = "the least i64, which wraps around",
           .inputs = {Tensor::of<int64_t>({INT64_MIN, INT64_MIN + 1}, Shape{2})},
           .expected = {Tensor::of<int64_t>({INT64_MIN, INT64_MAX}, Shape{2})},
           .as_written = true},
      });
}
const ListedCases listed_abs(abs_cases);

OpCases sign_cases() {
  return unary_cases(
      "Sign", booleans(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, -2}, {30, -4}})},
           .expected = {matrix({{1, -1}, {1, -1}})}},
          {.name = "size one", .inputs = {vector({-0.5})}, .expected = {vector({-1})}},
          {.name = "zero, infinities and NaN",
           .inputs = {vector({0, INFINITY, -INFINITY, NAN})},
           .expected = {vector({0, 1, -1, NAN})},
           .smooth = false},
          {.name = "tiny and huge",
           .inputs = {vector({1e-30, -1e-30, 1e300, -1e300})},
           .expected = {vector({1, -1, 1, -1})},
           .smooth = false},
          {.name = "the ends of i32",
           .inputs = {Tensor::of<int32_t>({INT32_MIN, INT32_MAX, 0}, Shape{3})},
           .expected = {Tensor::of<int32_t>({-1, 1, 0}, Shape{3})},
           .as_written = true},
      });
}
const ListedCases listed_sign(sign_cases);

}  // namespace

TEST_CASE("Abs drops the sign") { check(abs_cases()); }

TEST_CASE("Sign is one, minus one or zero") { check(sign_cases()); }

}  // namespace troupe
