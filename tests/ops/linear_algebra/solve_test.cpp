// Cholesky and TriangularSolve; Solve, Inverse, Determinant and LogDet, all computed by LU.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table solve_table("LU solves, inverts and finds determinants", [] {
  const Tensor a = matrix({{1, 2, -1}, {3, 0.5, 2}, {-2, 1, 1}});
  const Tensor b = matrix({{2, 1}, {3, -4}, {5, 0.5}});
  const Tensor stack = values({2, 3, 3}, {1, 2, -1, 3, 0.5, 2, -2, 1, 1, 2.75, 0.1875, 0.375,
                                          0.1875, 1.65625, 0, 0.375, 0, 1.75});
  const Tensor swap = matrix({{0, 0, 1}, {1, 0, 0}, {0, 1, 0}});
  const Tensor singular = matrix({{1, 2}, {2, 4}});
  return table_of(
      "Solve",
      {Case("equations", {a, b},
            {matrix({{-0.5384615384615384, -0.6538461538461539},
                     {2.153846153846154, 0.28205128205128205},
                     {1.7692307692307692, -1.0897435897435896}})}),
       Case("transposed", {a, b},
            {matrix({{0.20512820512820518, -1.4615384615384615},
                     {1.7435897435897436, 0.07692307692307697},
                     {1.7179487179487178, -1.1153846153846154}})},
            {{"transpose", true}}),
       Case("a batch", {stack, values({2, 3, 2}, {2, 1, 3, -4, 5, 0.5, -1, 0, -2, 5, -4, 0.5})},
            {values({2, 3, 2}, {-0.5384615384615384, -0.6538461538461539, 2.153846153846154,
                                0.28205128205128205, 1.7692307692307692, -1.0897435897435896,
                                0.03155015584250362, -0.2541823039246867, -1.2111188855670758,
                                3.0476432796895874, -2.292475033394822, 0.3401819222695757})}),
       Case("a batch, transposed",
            {stack, values({2, 3, 2}, {2, 1, 3, -4, 5, 0.5, -1, 0, -2, 5, -4, 0.5})},
            {values({2, 3, 2}, {0.20512820512820518, -1.4615384615384615, 1.7435897435897436,
                                0.07692307692307697, 1.7179487179487178, -1.1153846153846154,
                                0.03155015584250362, -0.2541823039246867, -1.2111188855670758,
                                3.0476432796895874, -2.292475033394822, 0.3401819222695757})},
            {{"transpose", true}}),
       Case("rows in another order", {swap, matrix({{1}, {2}, {3}})}, {matrix({{2}, {3}, {1}})}),
       Case("rows in another order, transposed", {swap, matrix({{1}, {2}, {3}})},
            {matrix({{3}, {1}, {2}})}, {{"transpose", true}}),
       Case("a small pivot is not used", {matrix({{1e-30, 1}, {1, 1}}), matrix({{1}, {2}})},
            {matrix({{1}, {1}})})
           .rough(),
       Case("NaN spreads", {matrix({{NAN, 1}, {1, 1}}), matrix({{1}, {2}})},
            {matrix({{NAN}, {NAN}})})
           .rough(),
       Case("no right sides", {a, zeros({3, 0})}, {zeros({3, 0})}),
       Case("empty matrices", {zeros({2, 0, 0}), zeros({2, 0, 3})}, {zeros({2, 0, 3})}),
       Case("Inverse", "a matrix", {a},
            {matrix({{0.0769230769230769, 0.15384615384615385, -0.23076923076923075},
                     {0.3589743589743591, 0.05128205128205126, 0.2564102564102564},
                     {-0.20512820512820512, 0.2564102564102564, 0.28205128205128205}})}),
       Case("Inverse", "a batch", {stack},
            {values({2, 3, 3}, {0.0769230769230769, 0.15384615384615385, -0.23076923076923075,
                                0.3589743589743591, 0.05128205128205126, 0.2564102564102564,
                                -0.20512820512820512, 0.2564102564102564, 0.28205128205128205,
                                0.3775841231473825, -0.04274537243177915, -0.08091088353158196,
                                -0.04274537243177914, 0.6086126836715222, 0.009159722663952673,
                                -0.08091088353158196, 0.009159722663952673, 0.5887666178996247})}),
       Case("Inverse", "size one", {matrix({{4}})}, {matrix({{0.25}})}),
       Case("Inverse", "NaN spreads", {matrix({{1, NAN}, {0, 1}})},
            {matrix({{NAN, NAN}, {NAN, NAN}})})
           .rough(),
       Case("Inverse", "empty matrices", {zeros({2, 0, 0})}, {zeros({2, 0, 0})}),
       Case("Determinant", "a matrix", {a}, {scalar(-19.499999999999996)}),
       Case("Determinant", "a batch", {stack}, {vector({-19.499999999999996, 7.676269531249998})}),
       Case("Determinant", "an even permutation", {swap}, {scalar(1)}),
       Case("Determinant", "an odd permutation", {matrix({{0, 2}, {3, 0}})}, {scalar(-6)}),
       Case("Determinant", "singular", {values({2, 2, 2}, {1, 2, 2, 4, 0, 0, 0, 1})},
            {vector({0, 0})})
           .rough(),
       Case("Determinant", "NaN", {matrix({{0, NAN}, {0, 1}})}, {scalar(NAN)}).rough(),
       Case("Determinant", "1 for an empty matrix", {zeros({2, 0, 0})}, {vector({1, 1})}),
       Case("Determinant", "no matrices", {zeros({0, 2, 2})}, {zeros({0})}),
       Case("LogDet", "a matrix", {a}, {scalar(-1), scalar(2.970414465569701)}),
       Case("LogDet", "a batch", {stack},
            {vector({-1, 1}), vector({2.970414465569701, 2.0381336910321153})}),
       Case("LogDet", "where a determinant would run over", {matrix({{1e30, 0}, {0, -1e30}})},
            {scalar(-1), scalar(138.15510557964276)})
           .rough(),
       Case("LogDet", "singular, and NaN", {values({2, 2, 2}, {1, 2, 2, 4, NAN, 0, 0, 1})},
            {vector({0, NAN}), vector({-INFINITY, NAN})})
           .rough(),
       Case("LogDet", "an empty matrix", {zeros({0, 0})}, {scalar(1), scalar(0)})},
      {Refused({zeros({2, 3}), zeros({2, 1})}, "wants square matrices [..., n, n], got [2, 3]"),
       Refused({a, zeros({2, 1})}, "numbers of rows differ: [3, 3] and [2, 1]"),
       Refused({singular, zeros({2, 1})},
               "the matrix is singular: elimination finds no pivot in column 1")
           .in_step(),
       Refused("Inverse", {zeros({2, 3})}, "wants square matrices [..., n, n], got [2, 3]"),
       Refused("Inverse", {values({3, 1, 1}, {1, 0, 2})},
               "matrix 1 of 3, counted from 0, is singular: elimination finds no "
               "pivot in column 0")
           .in_step(),
       Refused("Determinant", {zeros({2, 3})}, "wants square matrices [..., n, n], got [2, 3]"),
       Refused("LogDet", {zeros({2, 3})}, "wants square matrices [..., n, n], got [2, 3]"),
       Refused("LogDet", {i32(matrix({{1}}))}, "has no kernel for i32; cast to one of f32, f64")});
});

Attrs attrs(bool lower, bool transpose) { return {{"lower", lower}, {"transpose", transpose}}; }

const Table triangular_solve_table("TriangularSolve solves by substitution", [] {
  const Tensor a = matrix({{2, 7, -3}, {1, 4, 5}, {-1, 3, -5}});
  const Tensor b = matrix({{2, 1}, {3, -4}, {5, 0.5}});
  return table_of(
      "TriangularSolve",
      {Case("lower", {a, b}, {matrix({{1, 0.5}, {0.5, -1.125}, {-0.9, -0.875}})}),
       Case("upper", {a, b}, {matrix({{-7.5, 3.4125}, {2, -0.875}, {-1, -0.1}})},
            attrs(false, false)),
       Case("lower, transposed", {a, b},
            {matrix({{-0.25, 0.9125000000000001}, {1.5, -0.925}, {-1, -0.1}})}, attrs(true, true)),
       Case("upper, transposed", {a, b}, {matrix({{1, 0.5}, {-1, -1.875}, {-2.6, -2.275}})},
            attrs(false, true)),
       Case("a batch",
            {values({2, 3, 3}, {2, 7, -3, 1, 4, 5, -1, 3, -5, 3, 1, -1, 7, 5, 3, -3, 5, -4}),
             values({2, 3, 2}, {2, 1, 3, -4, 5, 0.5, 3, 2, 4, -3, 6, 1.5})},
            {values({2, 3, 2},
                    {1, 0.5, 0.5, -1.125, -0.9, -0.875, 1, 0.6666666666666666, -0.6000000000000001,
                     -1.5333333333333332, -3, -2.7916666666666665})}),
       Case("size one", {matrix({{4}}), matrix({{2}})}, {matrix({{0.5}})}),
       Case("the other triangle is not looked at", {matrix({{2, NAN}, {1, 1}}), matrix({{4}, {5}})},
            {matrix({{2}, {3}})})
           .rough(),
       Case("NaN spreads", {matrix({{2, 0}, {1, NAN}}), matrix({{4}, {5}})}, {matrix({{2}, {NAN}})})
           .rough(),
       Case("no right sides", {a, zeros({3, 0})}, {zeros({3, 0})}),
       Case("empty matrices", {zeros({2, 0, 0}), zeros({2, 0, 3})}, {zeros({2, 0, 3})})},
      {Refused({zeros({2, 3}), zeros({2, 1})}, "wants square matrices [..., n, n], got [2, 3]"),
       Refused({a, zeros({2, 1})}, "numbers of rows differ: [3, 3] and [2, 1]"),
       Refused({zeros({2, 3, 3}), zeros({3, 3, 1})},
               "leading dimensions differ: [2, 3, 3] and [3, 3, 1]"),
       Refused({zeros({2, 3, 3}), zeros({2, 3})}, "and a vector [..., n] a matrix [..., n, 1]"),
       Refused({a, vector({1, 2, 3})}, "wants matrices [..., rows, columns], got ["),
       Refused({values({2, 2, 2}, {1, 0, 0, 1, 1, 0, 0, 0}), zeros({2, 2, 1})},
               "matrix 1 of 2, counted from 0, is singular: element 1 of its "
               "diagonal is 0")
           .in_step()});
});

// 4 on the diagonal, plus the cosine of the distance from the diagonal: positive definite.
Tensor twenty() {
  Tensor x = Tensor::empty(DType::f64, {20, 20});
  for (int i = 0; i < 400; ++i)
    x.mutable_data<double>()[i] = std::cos(i / 20 - i % 20) + (i / 20 == i % 20 ? 4 : 0);
  return x;
}

const Table cholesky_table("Cholesky finds the triangular root of a matrix", [] {
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
});

}  // namespace
}  // namespace troupe
