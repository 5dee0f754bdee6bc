// Cholesky.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// 4 on the diagonal, plus the cosine of the distance from the diagonal: positive definite.
Tensor twenty() {
  Tensor x = Tensor::empty(DType::f64, {20, 20});
  for (int i = 0; i < 400; ++i)
    x.mutable_data<double>()[i] = std::cos(i / 20 - i % 20) + (i / 20 == i % 20 ? 4 : 0);
  return x;
}

OpCases cases() {
  const Tensor x = iota({3, 3}, 1);
  return {.values = {{.name = "a matrix",
                      .op = "Cholesky",
                      .inputs = {matrix({{4, 2, -2}, {2, 10, 2}, {-2, 2, 5}})},
                      .expected = {matrix({{2, 0, 0}, {1, 3, 0}, {-1, 1, 1.7320508075688772}})}},
                     {.name = "a batch; what is above the diagonal is not looked at",
                      .op = "Cholesky",
                      .inputs = {values({2, 3, 3}, {4, 9, 5, 2, 10, 9, -2, 2, 5, 2, 8, 7.5, 1, 3, 6,
                                                    0.5, -1, 2})},
                      .expected = {values({2, 3, 3}, {2, 0, 0, 1, 3, 0, -1, 1, 1.7320508075688772,
                                                      1.4142135623730951, 0, 0, 0.7071067811865475,
                                                      1.5811388300841898, 0, 0.35355339059327373,
                                                      -0.7905694150420949, 1.118033988749895})}},
                     {.name = "not even NaN there",
                      .op = "Cholesky",
                      .inputs = {matrix({{4, NAN}, {2, 5}})},
                      .expected = {matrix({{2, 0}, {1, 2}})},
                      .smooth = false},
                     {.name = "NaN spreads",
                      .op = "Cholesky",
                      .inputs = {matrix({{1, 0, 0}, {NAN, 1, 0}, {0, 0, 1}})},
                      .expected = {matrix({{1, 0, 0}, {NAN, NAN, 0}, {0, NAN, NAN}})},
                      .smooth = false},
                     {.name = "size one",
                      .op = "Cholesky",
                      .inputs = {values({1, 1, 1}, {9})},
                      .expected = {values({1, 1, 1}, {3})}},
                     {.name = "large and small numbers",
                      .op = "Cholesky",
                      .inputs = {matrix({{1e30, 0}, {0, 1e-30}})},
                      .expected = {matrix({{1e15, 0}, {0, 1e-15}})},
                      .smooth = false},
                     {.name = "empty matrices",
                      .op = "Cholesky",
                      .inputs = {zeros({2, 0, 0})},
                      .expected = {zeros({2, 0, 0})}},
                     {.name = "no matrices",
                      .op = "Cholesky",
                      .inputs = {zeros({0, 3, 3})},
                      .expected = {zeros({0, 3, 3})}},
                     {.name = "more than a vector register: l * transpose(l) is a",
                      .op = "Cholesky",
                      .inputs = {twenty()},
                      .expected = {twenty()},
                      .build =
                          [](Graph&, const std::vector<Output>& in) {
                            const Output l = cholesky(in[0]);
                            return std::vector{matmul(l, l, {.transpose_b = true})};
                          },
                      .smooth = false}},
          .errors = {
              {.op = "Cholesky",
               .inputs = {zeros({2, 3})},
               .message = "wants square matrices [..., n, n], got [2, 3]"},
              {.op = "Cholesky",
               .inputs = {vector({1})},
               .message = "wants matrices [..., rows, columns], got ["},
              {.op = "Cholesky",
               .inputs = {i32(matrix({{1}}))},
               .message = "has no kernel for i32; cast to one of f32, f64"},
              {.op = "Cholesky",
               .inputs = {matrix({{1, 2}, {2, 1}})},
               .message = "the matrix is not positive definite: row 1 leaves no positive number",
               .when_run = true},
              {.op = "Cholesky",
               .inputs = {values({3, 1, 1}, {1, 0, -1})},
               .message = "matrix 1 of 3, counted from 0, is not positive definite: row 0",
               .when_run = true},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Cholesky finds the triangular root of a matrix") { check(cases()); }

}  // namespace troupe
