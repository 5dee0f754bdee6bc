// LU: p * a = l * u by Gaussian elimination with partial pivoting, for solve, inverse and
// determinants.
#pragma once

#include <numeric>
#include <vector>

#include "ops/linear_algebra/matrices.hpp"

namespace troupe {

struct LuLoop {
  // a [n, n] becomes u and, below its diagonal, l, whose diagonal is 1; row i of p * a was row
  // order[i] of a. A pivot of 0 is passed over. Returns how often rows were swapped.
  template <class T>
  static int64_t run(T* a, int64_t* order, int64_t n) {
    std::iota(order, order + n, int64_t{0});
    int64_t swaps = 0;
    for (int64_t k = 0; k < n; ++k) {
      int64_t best = k;
      for (int64_t i = k + 1; i < n; ++i)
        if (std::abs(a[i * n + k]) > std::abs(a[best * n + k])) best = i;
      if (best != k) {
        std::swap_ranges(a + k * n, a + (k + 1) * n, a + best * n);
        std::swap(order[k], order[best]);
        ++swaps;
      }
      const T pivot = a[k * n + k];
      for (int64_t i = k + 1; i < n; ++i) {
        // Below a pivot of 0 there is nothing but 0 and NaN, which spreads.
        const T factor = pivot == 0 ? a[i * n + k] : a[i * n + k] / pivot;
        a[i * n + k] = factor;
        subtract_row(factor, a + k * n + k + 1, a + i * n + k + 1, n - k - 1);
      }
    }
    return swaps;
  }
};

template <class T>
struct Lu {
  int64_t n;
  Tensor factors;
  std::vector<int64_t> order;
  int64_t swaps = 0;

  Lu(KernelContext& ctx, int64_t n)
      : n(n), factors(ctx.scratch(dtype_of<T>, Shape{n, n})), order(static_cast<size_t>(n)) {}

  void factorize(const T* a) {
    T* to = factors.mutable_data<T>();
    std::copy_n(a, n * n, to);
    swaps = in_isa<LuLoop>(to, order.data(), n);
  }
  const T* diagonal(int64_t i) const { return factors.data<T>() + i * (n + 1); }

  // Throws: Error naming matrix `i` of `count` and the column without a pivot.
  void require_regular(const KernelContext& ctx, int64_t i, int64_t count) const {
    for (int64_t k = 0; k < n; ++k)
      if (*diagonal(k) == 0)
        throw ctx.error(which_matrix(i, count), " is singular: elimination finds no pivot in ",
                        "column ", k, "; add a multiple of the identity, or check its rows");
  }

  // x: [n, k], not b. A b of nullptr is the identity.
  void solve(const T* b, bool transpose, T* x, int64_t k) const {
    const T* lu = factors.data<T>();
    if (!transpose) {
      for (int64_t i = 0; i < n; ++i) copy_row(b, order[static_cast<size_t>(i)], x, i, k);
      in_isa<TriangularLoop>(lu, n, int64_t{1}, /*lower=*/true, /*unit=*/true, x, n, k);
      in_isa<TriangularLoop>(lu, n, int64_t{1}, /*lower=*/false, /*unit=*/false, x, n, k);
      return;
    }
    std::vector<T> turned(static_cast<size_t>(n * k));
    for (int64_t i = 0; i < n; ++i) copy_row(b, i, turned.data(), i, k);
    in_isa<TriangularLoop>(lu, int64_t{1}, n, /*lower=*/true, /*unit=*/false, turned.data(), n, k);
    in_isa<TriangularLoop>(lu, int64_t{1}, n, /*lower=*/false, /*unit=*/true, turned.data(), n, k);
    for (int64_t i = 0; i < n; ++i)
      std::copy_n(turned.data() + i * k, k, x + order[static_cast<size_t>(i)] * k);
  }

 private:
  static void copy_row(const T* b, int64_t from, T* x, int64_t to, int64_t k) {
    if (b) {
      std::copy_n(b + from * k, k, x + to * k);
    } else {
      std::fill_n(x + to * k, k, T{0});
      x[to * k + from] = 1;
    }
  }
};

}  // namespace troupe
