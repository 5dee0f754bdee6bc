// Householder reflections, for qr, eigh and svd: h = identity - tau * v * transpose(v) with v[0] =
// 1 (Golub and Van Loan, Matrix Computations, 2013, section 5.1; signs as in LAPACK's xLARFG).
#pragma once

#include "ops/linear_algebra/matrices.hpp"

namespace troupe {

// NaN if one of them is.
template <class T>
T largest_magnitude(const T* x, int64_t n) {
  T largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T magnitude = std::abs(x[i]);
    largest = ((magnitude > largest) | (magnitude != magnitude)) ? magnitude : largest;
  }
  return largest;
}

// Divides x by the power of two next to its largest magnitude, which changes no digit, so that no
// sum of a few products of its elements runs over. Returns that power, or NaN, and leaves x, if an
// element is not finite.
inline double scale_down(std::vector<double>& x) {
  const double largest = largest_magnitude(x.data(), static_cast<int64_t>(x.size()));
  if (!std::isfinite(largest)) return std::nan("");
  if (largest == 0) return 1;
  const double scale = std::ldexp(1.0, std::ilogb(largest));
  for (double& one : x) one /= scale;
  return scale;
}

template <class T>
struct Reflection {
  T tau, beta;  // h * x = [beta, 0, 0, ...]
};

// For the x that v holds, which becomes v. Scaled, so that no square overflows.
template <class T>
Reflection<T> reflect(T* v, int64_t n) {
  const T first = v[0], scale = largest_magnitude(v + 1, n - 1);
  v[0] = 1;
  if (scale == 0) return {0, first};
  T sum = 0;
  for (int64_t i = 1; i < n; ++i) sum += (v[i] / scale) * (v[i] / scale);
  const T beta = -std::copysign(std::hypot(first, scale * std::sqrt(sum)), first);
  for (int64_t i = 1; i < n; ++i) v[i] /= first - beta;
  return {(beta - first) / beta, beta};
}

// x = h * x for `columns` columns of n rows that are `stride` apart; w has room for a row.
template <class T>
void apply_reflection(const T* v, T tau, T* x, int64_t n, int64_t columns, int64_t stride, T* w) {
  std::fill_n(w, columns, T{0});
  for (int64_t i = 0; i < n; ++i) subtract_row(-v[i], x + i * stride, w, columns);
  for (int64_t i = 0; i < n; ++i) subtract_row(tau * v[i], w, x + i * stride, columns);
}

struct QrLoop {
  // a [m, n] becomes r, with anything below its diagonal. The k-th of min(m, n) reflections is in
  // v[k * m + k, k * m + m) and tau[k].
  template <class T>
  static void run(T* a, T* v, T* tau, T* w, int64_t m, int64_t n) {
    for (int64_t k = 0; k < std::min(m, n); ++k) {
      T* one = v + k * m + k;
      for (int64_t i = k; i < m; ++i) one[i - k] = a[i * n + k];
      const Reflection<T> reflection = reflect(one, m - k);
      tau[k] = reflection.tau;
      a[k * n + k] = reflection.beta;
      apply_reflection(one, tau[k], a + k * n + k + 1, m - k, n - k - 1, n, w);
    }
  }
};

// q [m, columns] = the product of `count` reflections, as QrLoop leaves them, and q.
struct ReflectLoop {
  template <class T>
  static void run(const T* v, const T* tau, T* q, T* w, int64_t m, int64_t columns, int64_t count) {
    for (int64_t k = count - 1; k >= 0; --k)
      apply_reflection(v + k * m + k, tau[k], q + k * columns, m - k, columns, columns, w);
  }
};

// ---- signs ----

// True if column j of x [n, columns] has to be negated for its greatest element in magnitude to be
// positive: the first of the elements that differ by no more than rounding.
inline bool points_down(const double* x, int64_t n, int64_t columns, int64_t j) {
  constexpr double kRounding = 1e-9;
  double greatest = 0;
  for (int64_t i = 0; i < n; ++i) greatest = std::max(greatest, std::abs(x[i * columns + j]));
  for (int64_t i = 0; i < n; ++i)
    if (std::abs(x[i * columns + j]) >= (1 - kRounding) * greatest) return x[i * columns + j] < 0;
  return false;
}

inline void negate_column(double* x, int64_t n, int64_t columns, int64_t j) {
  for (int64_t i = 0; i < n; ++i) x[i * columns + j] = -x[i * columns + j];
}

}  // namespace troupe
