// ReduceGradient.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {
      .values =
          {
              {.name = "everything",
               .op = "ReduceGradient",
               .inputs = {scalar(2), zeros({2, 2})},
               .expected = {full({2, 2}, 2)}},
              {.name = "rows",
               .op = "ReduceGradient",
               .inputs = {vector({1, 2}), zeros({2, 3})},
               .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}, {"mean", false}},
               .expected = {matrix({{1, 1, 1}, {2, 2, 2}})}},
              {.name = "columns",
               .op = "ReduceGradient",
               .inputs = {vector({1, 2, 3}), zeros({2, 3})},
               .attrs = {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}, {"mean", false}},
               .expected = {matrix({{1, 2, 3}, {1, 2, 3}})}},
              {.name = "kept dimensions",
               .op = "ReduceGradient",
               .inputs = {matrix({{1}, {2}}), zeros({2, 3})},
               .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", true}, {"mean", false}},
               .expected = {matrix({{1, 1, 1}, {2, 2, 2}})}},
              {.name = "a mean of rows",
               .op = "ReduceGradient",
               .inputs = {vector({2, 4}), zeros({2, 2})},
               .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}, {"mean", true}},
               .expected = {matrix({{1, 1}, {2, 2}})},
               .as_written = true},
              {.name = "a mean of columns",
               .op = "ReduceGradient",
               .inputs = {f32(vector({2, 4})), f32(zeros({2, 2}))},
               .attrs = {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}, {"mean", true}},
               .expected = {f32(matrix({{1, 2}, {1, 2}}))},
               .as_written = true},
              {.name = "the shape of another dtype",
               .op = "ReduceGradient",
               .inputs = {f32(vector({2, 4})), i64(zeros({2, 2}))},
               .attrs = {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}, {"mean", true}},
               .expected = {f32(matrix({{1, 2}, {1, 2}}))},
               .as_written = true},
              {.name = "size one",
               .op = "ReduceGradient",
               .inputs = {scalar(1), zeros({1})},
               .expected = {vector({1})}},
              {.name = "empty",
               .op = "ReduceGradient",
               .inputs = {scalar(1), zeros({0})},
               .expected = {zeros({0})}},
          },
      .errors = {
          {.op = "ReduceGradient",
           .inputs = {zeros({3}), zeros({2, 3})},
           .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}, {"mean", false}},
           .message = "wants dy of shape [2], got [3]"},
          {.op = "ReduceGradient",
           .inputs = {i32(scalar(1)), i32(zeros({2}))},
           .attrs = {{"axes", std::vector<int64_t>{}}, {"keep_dims", false}, {"mean", true}},
           .message = "broadcasts means of f32 or f64, got i32"},
      }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("ReduceGradient broadcasts gradients over what was reduced") { check(cases()); }

}  // namespace troupe
