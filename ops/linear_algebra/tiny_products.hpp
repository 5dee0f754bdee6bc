// Products of matrices of which one dimension is tiny, such as the scores of a few rows for each
// example, and their gradients. For many small ones a call of oneDNN costs more than the product;
// these loops run at the speed of memory.
#pragma once

#include "ops/linear_algebra/matmul.hpp"
#include "troupe/op.hpp"

namespace troupe {

// True if the loops are for these products. It depends on their sizes alone, as oneDNN and the loop
// of f64 sum in another order.
template <class T>
bool are_tiny(const MatmulProducts& products);

// Makes output 0 of a MatMul of f32 or f64. Requires: are_tiny<T>(products); there is something to
// write and something to sum.
template <class T>
void multiply_tiny(KernelContext& ctx, const MatmulProducts& products, bool transpose_a,
                   bool transpose_b);

}  // namespace troupe
