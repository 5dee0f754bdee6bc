// Linear algebra over the last two dimensions. The conventions of troupe/ops.hpp hold for these
// functions.
//
// Matrices are floats [..., m, n]; leading dimensions count a batch, and those of several inputs
// must agree. NaN and infinity propagate. An error names the first bad matrix of the batch.
#pragma once

#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// ---- products ----

// a [m], b [n] -> a[i] * b[j], [m, n]. For numbers.
Output outer(Output a, Output b, Origin at = Origin::here());
// x[..., i, i + offset] over two axes of x; the diagonal is the last dimension of the result. For
// any dtype.
struct DiagonalOptions {
  int64_t offset = 0;
  int64_t axis1 = -2;
  int64_t axis2 = -1;
};
Output diagonal(Output x, DiagonalOptions options = {}, Origin at = Origin::here());
// The sum of x[..., i, i + offset]. For numbers except u8; the matrices need not be square.
Output trace(Output x, int64_t offset = 0, Origin at = Origin::here());
// The sum of products over axes_a of a and axes_b of b, in pairs. The result has the other
// dimensions of a, then those of b. Also for i32 and i64.
Output tensordot(Output a, Output b, const std::vector<int64_t>& axes_a,
                 const std::vector<int64_t>& axes_b, Origin at = Origin::here());
// Over the last `axes` dimensions of a and the first of b.
Output tensordot(Output a, Output b, int64_t axes, Origin at = Origin::here());
// Sums of products in Einstein's notation: "ij,jk->ik" multiplies matrices, "bii->b" sums
// diagonals, "...ij->...ji" transposes. A letter stands for one dimension and has one size
// everywhere; "..." stands for any dimensions, which broadcast. Without "->", the result has the
// dimensions of "..." and then the letters that occur once, sorted. Several operands are multiplied
// from left to right. Also for i32 and i64. A size of 1 known only in the step is repeated to match
// another size.
Output einsum(std::string_view equation, const std::vector<Output>& operands,
              Origin at = Origin::here());
// x / sqrt(max(sum of x^2 over the axes, epsilon)); {}: all axes.
Output l2_normalize(Output x, std::vector<int64_t> axes = {-1}, double epsilon = 1e-12,
                    Origin at = Origin::here());

// ---- equations ----

// The lower triangular l with l * transpose(l) = a. Only the lower triangle of a is read and has a
// gradient: for a symmetric matrix, pass (a + transpose(a)) / 2. Fails the step for a matrix that
// is not positive definite.
Output cholesky(Output a, Origin at = Origin::here());
struct TriangularSolveOptions {
  bool lower = true;       // the triangle of a that is read
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

// a [..., m, n] = q * r, where the k = min(m, n) columns of q are orthonormal and r is upper
// triangular; signs are those of LAPACK. A gradient for m < n needs both sizes known while
// building.
struct Qr {
  Output q;  // [..., m, k]
  Output r;  // [..., k, n]
};
Qr qr(Output a, Origin at = Origin::here());
// a = v * diag(w) * transpose(v) for a symmetric a; only its lower triangle is read. The element of
// greatest magnitude in each vector (the first of equals) is positive.
struct Eigh {
  Output values;   // [..., n], ascending
  Output vectors;  // [..., n, n], in columns
};
Eigh eigh(Output a, Origin at = Origin::here());
// a [..., m, n] = u * diag(s) * transpose(v), k = min(m, n). The element of greatest magnitude in
// each column of u (the first of equals) is positive. Takes seconds from some 500 columns on.
struct Svd {
  Output s;  // [..., k], descending
  Output u;  // [..., m, k]
  Output v;  // [..., n, k]
};
Svd svd(Output a, Origin at = Origin::here());

}  // namespace troupe
