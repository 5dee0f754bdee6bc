// ReduceGradient and SumToLike.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table reduce_gradient_table("ReduceGradient broadcasts gradients over what was reduced", [] {
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
});

const Table sum_to_like_table("SumToLike undoes a broadcast", [] {
  return table_of(
      "SumToLike",
      {
          Case("rows", {matrix({{1, 2}, {3, 4}}), zeros({2})}, {vector({4, 6})}),
          Case("columns", {matrix({{1, 2}, {3, 4}}), zeros({2, 1})}, {matrix({{3}, {7}})}),
          Case("everything", {matrix({{1, 2}, {3, 4}}), scalar(0)}, {scalar(10)}),
          Case("outside and inside", {iota({2, 2, 2}), zeros({2, 1})}, {matrix({{10}, {18}})}),
          Case("size one", {vector({1}), vector({0})}, {vector({1})}),
          Case("nothing to do", {vector({1, 2}), zeros({2})}, {vector({1, 2})}),
          Case("a sum of nothing", {zeros({0, 2}), zeros({2})}, {zeros({2})}),
      },
      {
          Refused({zeros({2}), zeros({3})}, "[2] is not what [3] broadcasts to"),
          Refused({zeros({1}), zeros({3})}, "[1] is not what [3] broadcasts to"),
          Refused({booleans(zeros({2})), booleans(zeros({1}))}, "has no kernel for bool"),
      });
});

}  // namespace
}  // namespace troupe
