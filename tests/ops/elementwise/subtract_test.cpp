// Subtract.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "same shape",
                   .op = "Subtract",
                   .inputs = {vector({5, 7, 9}), vector({1, 2, 3})},
                   .expected = {vector({4, 5, 6})}},
                  {.name = "size one",
                   .op = "Subtract",
                   .inputs = {vector({1}), vector({2.5})},
                   .expected = {vector({-1.5})}},
                  {.name = "a row from every row",
                   .op = "Subtract",
                   .inputs = {matrix({{1, 2}, {3, 4}}), vector({1, 2})},
                   .expected = {matrix({{0, 0}, {2, 2}})}},
                  {.name = "every element from a scalar",
                   .op = "Subtract",
                   .inputs = {scalar(1), vector({1, 2, 3})},
                   .expected = {vector({0, -1, -2})}},
                  {.name = "a column less a row",
                   .op = "Subtract",
                   .inputs = {matrix({{10}, {20}}), vector({1, 2})},
                   .expected = {matrix({{9, 8}, {19, 18}})}},
                  {.name = "empty",
                   .op = "Subtract",
                   .inputs = {zeros({0, 3}), zeros({3})},
                   .expected = {zeros({0, 3})}},
                  {.name = "i64 wraps around",
                   .op = "Subtract",
                   .inputs = {Tensor::of<int64_t>({INT64_MIN}, Shape{1}), i64(vector({1}))},
                   .expected = {Tensor::of<int64_t>({INT64_MAX}, Shape{1})},
                   .as_written = true},
              },
          .errors = {
              {.op = "Subtract",
               .inputs = {zeros({2, 3}), zeros({4})},
               .message = "shapes do not broadcast: [2, 3] and [4]"},
              {.op = "Subtract",
               .inputs = {zeros({2}), i32(zeros({2}))},
               .message = "inputs must have one dtype, got f64 and i32"},
              {.op = "Subtract",
               .inputs = {booleans(zeros({2})), booleans(zeros({2}))},
               .message = "has no kernel for bool"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Subtract subtracts") { check(cases()); }

}  // namespace troupe
