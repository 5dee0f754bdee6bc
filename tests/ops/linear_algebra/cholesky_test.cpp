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
  return table_of(
      "Cholesky",
      {Case("a matrix", {matrix({{4, 2, -2}, {2, 10, 2}, {-2, 2, 5}})},
            {matrix({{2, 0, 0}, {1, 3, 0}, {-1, 1, 1.7320508075688772}})}),
       Case("a batch; what is above the diagonal is not looked at",
            {values({2, 3, 3}, {4, 9, 5, 2, 10, 9, -2, 2, 5, 2, 8, 7.5, 1, 3, 6, 0.5, -1, 2})},
            {values({2, 3, 3}, {2, 0, 0, 1, 3, 0, -1, 1, 1.7320508075688772, 1.4142135623730951, 0,
                                0, 0.7071067811865475, 1.5811388300841898, 0, 0.35355339059327373,
                                -0.7905694150420949, 1.118033988749895})}),
       Case("not even NaN there", {matrix({{4, NAN}, {2, 5}})}, {matrix({{2, 0}, {1, 2}})}).rough(),
       Case("NaN spreads", {matrix({{1, 0, 0}, {NAN, 1, 0}, {0, 0, 1}})},
            {matrix({{1, 0, 0}, {NAN, NAN, 0}, {0, NAN, NAN}})})
           .rough(),
       Case("size one", {values({1, 1, 1}, {9})}, {values({1, 1, 1}, {3})}),
       Case("large and small numbers", {matrix({{1e30, 0}, {0, 1e-30}})},
            {matrix({{1e15, 0}, {0, 1e-15}})})
           .rough(),
       Case("empty matrices", {zeros({2, 0, 0})}, {zeros({2, 0, 0})}),
       Case("no matrices", {zeros({0, 3, 3})}, {zeros({0, 3, 3})}),
       Case("more than a vector register: l * transpose(l) is a", {twenty()}, {twenty()})
           .rough()
           .made_by([](Graph&, const std::vector<Output>& in) {
             const Output l = cholesky(in[0]);
             return std::vector{matmul(l, l, {.transpose_b = true})};
           })},
      {
          Refused({zeros({2, 3})}, "wants square matrices [..., n, n], got [2, 3]"),
          Refused({vector({1})}, "wants matrices [..., rows, columns], got ["),
          Refused({i32(matrix({{1}}))}, "has no kernel for i32; cast to one of f32, f64"),
          Refused({matrix({{1, 2}, {2, 1}})},
                  "the matrix is not positive definite: row 1 leaves no positive number")
              .in_step(),
          Refused({values({3, 1, 1}, {1, 0, -1})},
                  "matrix 1 of 3, counted from 0, is not positive definite: row 0")
              .in_step(),
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Cholesky finds the triangular root of a matrix") { check(cases()); }

}  // namespace troupe
