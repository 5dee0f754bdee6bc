// Cuts a product of batches that broadcast into products of batches that do not, for the kernels
// of MatMul.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "troupe/tensor.hpp"

namespace troupe {

// Where one side's rows and columns stand.
struct MatmulSide {
  Shape shape;
  bool transposed;
  int leading() const { return shape.ndim() - 2; }
  int64_t rows() const { return shape[leading() + (transposed ? 1 : 0)]; }
  int64_t columns() const { return shape[leading() + (transposed ? 0 : 1)]; }
};

// The products of a kernel: `each`, and the same again for each place in the dimensions outside of
// it, of which a side may have 1. Dimensions beside each other that both sides have, or the same
// side, are one.
struct MatmulProducts {
  // `batch` products of m x k by k x n. A side of batch 1 stands for all.
  struct Sizes {
    int64_t batch_a = 1, batch_b = 1, batch = 1, m = 0, k = 0, n = 0;
  };
  struct Dimension {
    int64_t size, step_a, step_b;  // steps in elements; 0 where a side is repeated
  };
  Sizes each;
  int64_t count = 1;
  int ndim = 0;
  std::array<Dimension, Shape::kNdimMax> outside;  // the first `ndim`, the innermost one first

  // Where number i reads a and b. Their results stand in a row.
  std::pair<int64_t, int64_t> at(int64_t i) const {
    int64_t at_a = 0, at_b = 0;
    for (int d = 0; d < ndim; ++d) {
      const Dimension& outer = outside[static_cast<size_t>(d)];
      at_a += i % outer.size * outer.step_a;
      at_b += i % outer.size * outer.step_b;
      i /= outer.size;
    }
    return {at_a, at_b};
  }
};

// With `taller`, matrices a that stand in a row and are all multiplied by one b are one. Requires:
// there is something to write and something to sum.
inline MatmulProducts products_of(const MatmulSide& a, const MatmulSide& b, bool taller = true) {
  MatmulProducts p;
  MatmulProducts::Sizes& s = p.each;
  s.m = a.rows(), s.k = a.columns(), s.n = b.columns();
  int64_t step_a = s.m * s.k, step_b = s.k * s.n;
  int last = 0;  // sides with the dimension before: 1 a, 2 b, 3 both
  for (int d = 1; d <= std::max(a.leading(), b.leading()); ++d) {
    const int64_t in_a = d <= a.leading() ? a.shape[a.leading() - d] : 1,
                  in_b = d <= b.leading() ? b.shape[b.leading() - d] : 1;
    const int who = (in_a > 1 ? 1 : 0) + (in_b > 1 ? 2 : 0);
    if (who == 0) continue;
    if (who != last) p.outside[p.ndim++] = {1, who & 1 ? step_a : 0, who & 2 ? step_b : 0};
    last = who;
    p.outside[p.ndim - 1].size *= std::max(in_a, in_b);
    step_a *= in_a;
    step_b *= in_b;
  }
  if (p.ndim == 0) return p;
  const MatmulProducts::Dimension inner = p.outside[0];
  --p.ndim;
  std::copy_n(p.outside.begin() + 1, p.ndim, p.outside.begin());
  for (int d = 0; d < p.ndim; ++d) p.count *= p.outside[d].size;
  if (taller && inner.step_b == 0 && !a.transposed) {  // one product of a taller matrix
    s.m *= inner.size;
    return p;
  }
  s.batch = inner.size;
  s.batch_a = inner.step_a ? inner.size : 1;
  s.batch_b = inner.step_b ? inner.size : 1;
  return p;
}

}  // namespace troupe
