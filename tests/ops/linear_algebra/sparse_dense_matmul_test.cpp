// SparseDenseMatMul.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(Shape shape, bool transpose = false) {
  return {{"shape", shape}, {"transpose", transpose}};
}

const Table table("SparseDenseMatMul multiplies by a sparse matrix", [] {
  const Tensor indices = i32(matrix({{0, 1}, {2, 0}, {0, 1}, {1, 3}}));
  const Tensor elements = vector({2, 3, -1, 4});
  const Tensor b = iota({4, 2}, -3);
  return table_of(
      "SparseDenseMatMul",
      {Case("places that are named twice add up", {indices, elements, b},
            {matrix({{-1, 0}, {12, 16}, {-9, -6}})}, attrs({3, 4})),
       Case("transposed",
            {i64(matrix({{0, 1}, {2, 0}, {0, 1}, {1, 3}})), elements, iota({3, 2}, 1)},
            {matrix({{15, 18}, {1, 2}, {0, 0}, {12, 16}})}, attrs({3, 4}, true)),
       Case("more than a vector register",
            {i64(matrix({{0, 0}, {0, 1}})), vector({1, 10}), iota({2, 19})},
            {iota({1, 19}, 190, 11)}, attrs({1, 2})),
       Case("integers wrap around",
            {i32(matrix({{0, 0}})), i32(vector({65536})), i32(matrix({{65537}}))},
            {i32(matrix({{65536}}))}, attrs({1, 1}))
           .as_typed(),
       Case("what no element meets is not looked at",
            {i32(matrix({{0, 1}})), vector({2}), matrix({{NAN}, {3}})}, {matrix({{6}, {0}})},
            attrs({2, 2}))
           .rough(),
       Case("NaN and infinity",
            {i32(matrix({{0, 1}, {1, 0}})), vector({INFINITY, 0}), matrix({{NAN}, {3}})},
            {matrix({{INFINITY}, {NAN}})}, attrs({2, 2}))
           .rough(),
       Case("no elements", {zeros({0, 2}, DType::i32), zeros({0}), b}, {zeros({3, 2})},
            attrs({3, 4})),
       Case("no columns", {indices, elements, zeros({4, 0})}, {zeros({3, 0})}, attrs({3, 4}))},
      {Refused({indices, elements, b}, "wants the shape [m, k] of the sparse matrix, got [3, 4, 1]",
               attrs({3, 4, 1})),
       Refused({indices, elements, b}, "wants the shape [m, k] of the sparse matrix, got [3, -1]",
               attrs({3, -1})),
       Refused({indices, vector({1, 2}), b},
               "wants indices [elements, 2] and values [elements], got [4, 2] and [",
               attrs({3, 4})),
       Refused({indices, elements, zeros({3, 2})},
               "inner sizes differ: [3, 4] times [3, 2]; b is a matrix with 4 rows", attrs({3, 4})),
       Refused({indices, elements, b}, "inner sizes differ: [3, 4] transposed times [4, 2]",
               attrs({3, 4}, true)),
       Refused({elements, elements, b}, "wants indices of i32 or i64, got f64", attrs({3, 4})),
       Refused({indices, f32(elements), b}, "multiplies values of one dtype, got f32 and f64",
               attrs({3, 4})),
       Refused({i32(matrix({{0, 0}, {2, 4}})), vector({1, 1}), b},
               "element 1 of 2 is at [2, 4], which is not in [3, 4]", attrs({3, 4}))
           .in_step(),
       Refused({i64(matrix({{-1, 0}})), vector({1}), b},
               "element 0 of 1 is at [-1, 0], which is not in [3, 4]", attrs({3, 4}))
           .in_step()});
});

}  // namespace
}  // namespace troupe
