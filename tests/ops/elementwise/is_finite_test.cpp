// IsFinite, IsNan and IsInf.
#include <doctest/doctest.h>

#include <limits>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

template <class T>
Tensor ends() {
  using Limits = std::numeric_limits<T>;
  return Tensor::of<T>({Limits::max(), Limits::lowest(), Limits::denorm_min()}, Shape{3});
}

OpCases is_finite_cases() {
  return {.values =
              {
                  {.name = "all kinds",
                   .op = "IsFinite",
                   .inputs = {vector({1, 0, -2.5, INFINITY, -INFINITY, NAN})},
                   .expected = {booleans(vector({1, 1, 1, 0, 0, 0}))}},
                  {.name = "size one",
                   .op = "IsFinite",
                   .inputs = {matrix({{NAN}})},
                   .expected = {booleans(matrix({{0}}))}},
                  {.name = "the ends of f32",
                   .op = "IsFinite",
                   .inputs = {ends<float>()},
                   .expected = {booleans(vector({1, 1, 1}))},
                   .as_written = true},
                  {.name = "the ends of f64",
                   .op = "IsFinite",
                   .inputs = {ends<double>()},
                   .expected = {booleans(vector({1, 1, 1}))},
                   .as_written = true},
                  {.name = "a long one",
                   .op = "IsFinite",
                   .inputs = {full({100}, INFINITY)},
                   .expected = {booleans(full({100}, 0))}},
                  {.name = "empty",
                   .op = "IsFinite",
                   .inputs = {zeros({3, 0})},
                   .expected = {booleans(zeros({3, 0}))}},
              },
          .errors = {
              {.op = "IsFinite",
               .inputs = {i32(zeros({2}))},
               .message = "has no kernel for i32; cast to one of f32, f64"},
              {.op = "IsFinite",
               .inputs = {zeros({2}), zeros({2})},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed_is_finite(is_finite_cases);

OpCases is_nan_cases() {
  return {.values =
              {
                  {.name = "all kinds",
                   .op = "IsNan",
                   .inputs = {vector({1, 0, -2.5, INFINITY, -INFINITY, NAN})},
                   .expected = {booleans(vector({0, 0, 0, 0, 0, 1}))}},
                  {.name = "size one",
                   .op = "IsNan",
                   .inputs = {matrix({{NAN}})},
                   .expected = {booleans(matrix({{1}}))}},
                  {.name = "the ends of f32",
                   .op = "IsNan",
                   .inputs = {ends<float>()},
                   .expected = {booleans(vector({0, 0, 0}))},
                   .as_written = true},
                  {.name = "the ends of f64",
                   .op = "IsNan",
                   .inputs = {ends<double>()},
                   .expected = {booleans(vector({0, 0, 0}))},
                   .as_written = true},
                  {.name = "a long one",
                   .op = "IsNan",
                   .inputs = {full({100}, INFINITY)},
                   .expected = {booleans(full({100}, 0))}},
                  {.name = "empty",
                   .op = "IsNan",
                   .inputs = {zeros({3, 0})},
                   .expected = {booleans(zeros({3, 0}))}},
              },
          .errors = {
              {.op = "IsNan",
               .inputs = {i32(zeros({2}))},
               .message = "has no kernel for i32; cast to one of f32, f64"},
              {.op = "IsNan",
               .inputs = {zeros({2}), zeros({2})},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed_is_nan(is_nan_cases);

OpCases is_inf_cases() {
  return {.values =
              {
                  {.name = "all kinds",
                   .op = "IsInf",
                   .inputs = {vector({1, 0, -2.5, INFINITY, -INFINITY, NAN})},
                   .expected = {booleans(vector({0, 0, 0, 1, 1, 0}))}},
                  {.name = "size one",
                   .op = "IsInf",
                   .inputs = {matrix({{NAN}})},
                   .expected = {booleans(matrix({{0}}))}},
                  {.name = "the ends of f32",
                   .op = "IsInf",
                   .inputs = {ends<float>()},
                   .expected = {booleans(vector({0, 0, 0}))},
                   .as_written = true},
                  {.name = "the ends of f64",
                   .op = "IsInf",
                   .inputs = {ends<double>()},
                   .expected = {booleans(vector({0, 0, 0}))},
                   .as_written = true},
                  {.name = "a long one",
                   .op = "IsInf",
                   .inputs = {full({100}, INFINITY)},
                   .expected = {booleans(full({100}, 1))}},
                  {.name = "empty",
                   .op = "IsInf",
                   .inputs = {zeros({3, 0})},
                   .expected = {booleans(zeros({3, 0}))}},
              },
          .errors = {
              {.op = "IsInf",
               .inputs = {i32(zeros({2}))},
               .message = "has no kernel for i32; cast to one of f32, f64"},
              {.op = "IsInf",
               .inputs = {zeros({2}), zeros({2})},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed_is_inf(is_inf_cases);

}  // namespace

TEST_CASE("IsFinite finds what is a number") { check(is_finite_cases()); }

TEST_CASE("IsNan finds NaN") { check(is_nan_cases()); }

TEST_CASE("IsInf finds infinities of both signs") { check(is_inf_cases()); }

}  // namespace troupe
