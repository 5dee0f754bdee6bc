// SparseDenseMatMul.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(Shape shape, bool transpose = false) {
  return {{"shape", shape}, {"transpose", transpose}};
}

OpCases cases() {
  const Tensor indices = i32(matrix({{0, 1}, {2, 0}, {0, 1}, {1, 3}}));
  const Tensor elements = vector({2, 3, -1, 4});
  const Tensor b = iota({4, 2}, -3);
  return {
      .values =
          {{.name = "places that are named twice add up",
            .op = "SparseDenseMatMul",
            .inputs = {indices, elements, b},
            .attrs = attrs({3, 4}),
            .expected = {matrix({{-1, 0}, {12, 16}, {-9, -6}})}},
           {.name = "transposed",
            .op = "SparseDenseMatMul",
            .inputs = {i64(matrix({{0, 1}, {2, 0}, {0, 1}, {1, 3}})), elements, iota({3, 2}, 1)},
            .attrs = attrs({3, 4}, true),
            .expected = {matrix({{15, 18}, {1, 2}, {0, 0}, {12, 16}})}},
           {.name = "more than a vector register",
            .op = "SparseDenseMatMul",
            .inputs = {i64(matrix({{0, 0}, {0, 1}})), vector({1, 10}), iota({2, 19})},
            .attrs = attrs({1, 2}),
            .expected = {iota({1, 19}, 190, 11)}},
           {.name = "integers wrap around",
            .op = "SparseDenseMatMul",
            .inputs = {i32(matrix({{0, 0}})), i32(vector({65536})), i32(matrix({{65537}}))},
            .attrs = attrs({1, 1}),
            .expected = {i32(matrix({{65536}}))},
            .as_written = true},
           {.name = "what no element meets is not looked at",
            .op = "SparseDenseMatMul",
            .inputs = {i32(matrix({{0, 1}})), vector({2}), matrix({{NAN}, {3}})},
            .attrs = attrs({2, 2}),
            .expected = {matrix({{6}, {0}})},
            .smooth = false},
           {.name = "NaN and infinity",
            .op = "SparseDenseMatMul",
            .inputs = {i32(matrix({{0, 1}, {1, 0}})), vector({INFINITY, 0}), matrix({{NAN}, {3}})},
            .attrs = attrs({2, 2}),
            .expected = {matrix({{INFINITY}, {NAN}})},
            .smooth = false},
           {.name = "no elements",
            .op = "SparseDenseMatMul",
            .inputs = {zeros({0, 2}, DType::i32), zeros({0}), b},
            .attrs = attrs({3, 4}),
            .expected = {zeros({3, 2})}},
           {.name = "no columns",
            .op = "SparseDenseMatMul",
            .inputs = {indices, elements, zeros({4, 0})},
            .attrs = attrs({3, 4}),
            .expected = {zeros({3, 0})}}},
      .errors = {{.op = "SparseDenseMatMul",
                  .inputs = {indices, elements, b},
                  .attrs = attrs({3, 4, 1}),
                  .message = "wants the shape [m, k] of the sparse matrix, got [3, 4, 1]"},
                 {.op = "SparseDenseMatMul",
                  .inputs = {indices, elements, b},
                  .attrs = attrs({3, -1}),
                  .message = "wants the shape [m, k] of the sparse matrix, got [3, -1]"},
                 {.op = "SparseDenseMatMul",
                  .inputs = {indices, vector({1, 2}), b},
                  .attrs = attrs({3, 4}),
                  .message = "wants indices [elements, 2] and values [elements], got [4, 2] and ["},
                 {.op = "SparseDenseMatMul",
                  .inputs = {indices, elements, zeros({3, 2})},
                  .attrs = attrs({3, 4}),
                  .message = "inner sizes differ: [3, 4] times [3, 2]; b is a matrix with 4 rows"},
                 {.op = "SparseDenseMatMul",
                  .inputs = {indices, elements, b},
                  .attrs = attrs({3, 4}, true),
                  .message = "inner sizes differ: [3, 4] transposed times [4, 2]"},
                 {.op = "SparseDenseMatMul",
                  .inputs = {elements, elements, b},
                  .attrs = attrs({3, 4}),
                  .message = "wants indices of i32 or i64, got f64"},
                 {.op = "SparseDenseMatMul",
                  .inputs = {indices, f32(elements), b},
                  .attrs = attrs({3, 4}),
                  .message = "multiplies values of one dtype, got f32 and f64"},
                 {.op = "SparseDenseMatMul",
                  .inputs = {i32(matrix({{0, 0}, {2, 4}})), vector({1, 1}), b},
                  .attrs = attrs({3, 4}),
                  .message = "element 1 of 2 is at [2, 4], which is not in [3, 4]",
                  .when_run = true},
                 {.op = "SparseDenseMatMul",
                  .inputs = {i64(matrix({{-1, 0}})), vector({1}), b},
                  .attrs = attrs({3, 4}),
                  .message = "element 0 of 1 is at [-1, 0], which is not in [3, 4]",
                  .when_run = true}}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("SparseDenseMatMul multiplies by a sparse matrix") { check(cases()); }

}  // namespace troupe
