// Shared by ReduceMax and ReduceMin. NaN wins against all numbers. F is Maximum or Minimum.
#pragma once

#include "ops/gradients.hpp"
#include "ops/support/narrow.hpp"
#include "ops/reductions/reduce.hpp"

namespace troupe {

// `which`: the word for the extreme. Throws: Error if there are no elements to choose from.
template <class Context>
void require_choice(const Context& ctx, const Shape& x, uint32_t axes, const char* which) {
  for (int d = 0; d < x.ndim(); ++d)
    if ((axes >> d & 1) && x[d] == 0)
      throw ctx.error("there is no ", which, " of no elements: axis ", d, " of ", x,
                      "; reduce over axes with elements");
}

inline const char* word_for(Maximum) { return "greatest"; }
inline const char* word_for(Minimum) { return "least"; }

template <class F>
std::vector<Shape> infer_extreme(const InferContext& ctx) {
  require_choice(ctx, ctx.input(0), reduced_axes(ctx, ctx.input(0).ndim()), word_for(F{}));
  return infer_reduced(ctx);
}

// Writing dy for dL/dy:  the extreme elements share dy equally, the others get 0. If NaN is the
// extreme, the NaN elements share it, though NaN equals nothing.
inline std::vector<Output> gradient_of_extreme(const GradientContext& ctx) {
  const Output x = ctx.input(0), y = ctx.output(0), dy = ctx.output_gradient(0);
  const ReduceOptions options = reduce_options(ctx.node());
  const Output equals = cast(equal(x, reduce_gradient(y, x, options)), x.dtype());
  const Output extreme = where(equal(x, x), equals, constant_like(1, x));
  const Output share = divide(dy, reduce_sum(extreme, options));
  return {multiply(extreme, reduce_gradient(share, x, options))};
}

// The kernel of ReduceMax or ReduceMin, with its table.
template <class F, const Reduction& (*table)(DType)>
void run_extreme(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  require_choice(ctx, x.shape(), reduced_axes(ctx, x.ndim()), word_for(F{}));
  run_reduction<table>(ctx);
}

}  // namespace troupe
