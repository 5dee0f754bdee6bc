// Linear algebra over the last two dimensions. Everything that troupe/ops.hpp says of its functions
// holds for these.
//
// Matrices are floats [..., m, n]; leading dimensions count a batch, and where there are several
// inputs theirs agree. NaN and infinity spread. An error names the first matrix of the batch that
// something is wrong with.
#pragma once

#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// ---- products ----

// a [m], b [n] -> a[i] * b[j], [m, n]. Of numbers.
Output outer(Output a, Output b, Origin at = Origin::here());
// x[..., i, i + offset] over two axes of x, which the result has as its last dimension. Of any
// dtype.
struct DiagonalOptions {
  int64_t offset = 0;
  int64_t axis1 = -2;
  int64_t axis2 = -1;
};
Output diagonal(Output x, DiagonalOptions options = {}, Origin at = Origin::here());
// Zeros like x with dy where that diagonal was.
Output diagonal_gradient(Output dy, Output x_like, DiagonalOptions options = {},
                         Origin at = Origin::here());
// The sum of x[..., i, i + offset]. Of numbers but u8; the matrices need not be square.
Output trace(Output x, int64_t offset = 0, Origin at = Origin::here());
// The sum of products over axes_a of a and axes_b of b, in pairs. The result has the other
// dimensions of a, then those of b. Also of i32 and i64.
Output tensordot(Output a, Output b, const std::vector<int64_t>& axes_a,
                 const std::vector<int64_t>& axes_b, Origin at = Origin::here());
// Over the last `axes` dimensions of a and the first of b.
Output tensordot(Output a, Output b, int64_t axes, Origin at = Origin::here());
// Sums of products in Einstein's notation: "ij,jk->ik" multiplies matrices, "bii->b" sums
// diagonals, "...ij->...ji" transposes. One letter for each dimension, of one size wherever it
// stands; "..." for any dimensions, which broadcast. Without "->", the result has the dimensions of
// "..." and then the letters that stand once, sorted. Several operands are multiplied from left to
// right. Also of i32 and i64. A 1 that only the step sees beside another size is repeated.
Output einsum(std::string_view equation, const std::vector<Output>& operands,
              Origin at = Origin::here());
// x / sqrt(max(sum of x^2 over the axes, epsilon)); {}: all axes.
Output l2_normalize(Output x, std::vector<int64_t> axes = {-1}, double epsilon = 1e-12,
                    Origin at = Origin::here());

// ---- equations ----

// The lower triangular l with l * transpose(l) = a. Only the lower triangle of a is read, and only
// that has a gradient: of a symmetric matrix, pass (a + transpose(a)) / 2. Fails the step for a
// matrix that is not positive definite.
Output cholesky(Output a, Origin at = Origin::here());
struct TriangularSolveOptions {
  bool lower = true;       // which triangle of a is read
  bool transpose = false;  // solve transpose(a) * x = b
};
// a [..., n, n], b [..., n, k] -> the x with a * x = b. Fails the step for a zero on the diagonal.
Output triangular_solve(Output a, Output b, TriangularSolveOptions options = {},
                        Origin at = Origin::here());
// a [..., n, n], b [..., n, k] -> the x with a * x = b, or transpose(a) * x = b. Fails the step for
// a singular matrix, as inverse does.
Output solve(Output a, Output b, bool transpose = false, Origin at = Origin::here());
Output inverse(Output a, Origin at = Origin::here());
// [..., n, n] -> [...]. The gradient of a singular matrix fails the step.
Output determinant(Output a, Origin at = Origin::here());
struct LogDet {
  Output sign;  // -1, 0 or 1
  Output log;   // of |determinant|; -infinity for a singular matrix
};
LogDet log_det(Output a, Origin at = Origin::here());

// ---- decompositions ----

// a [..., m, n] = q * r with k = min(m, n) columns in q, which are orthonormal, and r upper
// triangular; signs are those of LAPACK. A gradient for m < n needs both sizes known while
// building.
struct Qr {
  Output q;  // [..., m, k]
  Output r;  // [..., k, n]
};
Qr qr(Output a, Origin at = Origin::here());
// a = v * diag(w) * transpose(v) of a symmetric a, of which only the lower triangle is read. Of the
// elements of a vector, the greatest in magnitude (the first of equals) is positive.
struct Eigh {
  Output values;   // [..., n], ascending
  Output vectors;  // [..., n, n], in columns
};
Eigh eigh(Output a, Origin at = Origin::here());
// a [..., m, n] = u * diag(s) * transpose(v), k = min(m, n). Of the elements of a column of u, the
// greatest in magnitude (the first of equals) is positive. Takes seconds from some 500 columns on.
struct Svd {
  Output s;  // [..., k], descending
  Output u;  // [..., m, k]
  Output v;  // [..., n, k]
};
Svd svd(Output a, Origin at = Origin::here());

}  // namespace troupe
