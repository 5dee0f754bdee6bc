// ReduceGradient.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "ReduceGradient",
      {
          Case("everything", {scalar(2), zeros({2, 2})}, {full({2, 2}, 2)}),
          Case("rows", {vector({1, 2}), zeros({2, 3})}, {matrix({{1, 1, 1}, {2, 2, 2}})},
               {{"axes", Ints{1}}, {"keep_dims", false}, {"mean", false}}),
          Case("columns", {vector({1, 2, 3}), zeros({2, 3})}, {matrix({{1, 2, 3}, {1, 2, 3}})},
               {{"axes", Ints{0}}, {"keep_dims", false}, {"mean", false}}),
          Case("kept dimensions", {matrix({{1}, {2}}), zeros({2, 3})},
               {matrix({{1, 1, 1}, {2, 2, 2}})},
               {{"axes", Ints{1}}, {"keep_dims", true}, {"mean", false}}),
          Case("a mean of rows", {vector({2, 4}), zeros({2, 2})}, {matrix({{1, 1}, {2, 2}})},
               {{"axes", Ints{1}}, {"keep_dims", false}, {"mean", true}})
              .as_typed(),
          Case("a mean of columns", {f32(vector({2, 4})), f32(zeros({2, 2}))},
               {f32(matrix({{1, 2}, {1, 2}}))},
               {{"axes", Ints{0}}, {"keep_dims", false}, {"mean", true}})
              .as_typed(),
          Case("the shape of another dtype", {f32(vector({2, 4})), i64(zeros({2, 2}))},
               {f32(matrix({{1, 2}, {1, 2}}))},
               {{"axes", Ints{0}}, {"keep_dims", false}, {"mean", true}})
              .as_typed(),
          Case("size one", {scalar(1), zeros({1})}, {vector({1})}),
          Case("empty", {scalar(1), zeros({0})}, {zeros({0})}),
      },
      {
          Refused({zeros({3}), zeros({2, 3})}, "wants dy of shape [2], got [3]",
                  {{"axes", Ints{1}}, {"keep_dims", false}, {"mean", false}}),
          Refused({i32(scalar(1)), i32(zeros({2}))}, "broadcasts means of f32 or f64, got i32",
                  {{"axes", Ints{}}, {"keep_dims", false}, {"mean", true}}),
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("ReduceGradient broadcasts gradients over what was reduced") { check(cases()); }

}  // namespace troupe
