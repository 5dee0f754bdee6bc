// ReduceMax and ReduceMin: y = the greatest or the least of x over axes (all of them if none is
// named); NaN if x contains NaN. Throws for no elements.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims.
#include <limits>

#include "ops/gradients.hpp"
#include "ops/reductions/reduce.hpp"
#include "ops/reductions/reduction.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

struct Greatest : Maximum {
  static constexpr const char* kWord = "greatest";
  template <class T>
  static constexpr T nothing = std::numeric_limits<T>::has_infinity
                                   ? -std::numeric_limits<T>::infinity()
                                   : std::numeric_limits<T>::lowest();
};

struct Least : Minimum {
  static constexpr const char* kWord = "least";
  template <class T>
  static constexpr T nothing = std::numeric_limits<T>::has_infinity
                                   ? std::numeric_limits<T>::infinity()
                                   : std::numeric_limits<T>::max();
};

template <class R>
const Reduction& extreme_reduction(DType dtype) {
  return find_reduction<R, float, double, int32_t, int64_t, uint8_t>(dtype);
}

// `which`: the word for the extreme. Throws: Error if there are no elements to choose from.
template <class Context>
void require_choice(const Context& ctx, const Shape& x, uint32_t axes, const char* which) {
  for (int d = 0; d < x.ndim(); ++d)
    if ((axes >> d & 1) && x[d] == 0)
      throw ctx.error("there is no ", which, " of no elements: axis ", d, " of ", x,
                      "; reduce over axes with elements");
}

template <class R>
std::vector<Shape> infer_extreme(const InferContext& ctx) {
  require_choice(ctx, ctx.input(0), reduced_axes(ctx, ctx.input(0).ndim()), R::kWord);
  return infer_reduced(ctx);
}

// Writing dy for dL/dy:  the extreme elements share dy equally, the others get 0. If NaN is the
// extreme, the NaN elements share it, though NaN equals nothing.
std::vector<Output> gradient_of_extreme(const GradientContext& ctx) {
  const Output x = ctx.input(0), y = ctx.output(0), dy = ctx.output_gradient(0);
  const ReduceOptions options = reduce_options(ctx.node());
  const Output equals = cast(equal(x, reduce_gradient(y, x, options)), x.dtype());
  const Output extreme = where(equal(x, x), equals, constant_like(1, x));
  const Output share = divide(dy, reduce_sum(extreme, options));
  return {multiply(extreme, reduce_gradient(share, x, options))};
}

template <class R>
void run_extreme(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  require_choice(ctx, x.shape(), reduced_axes(ctx, x.ndim()), R::kWord);
  run_reduction<extreme_reduction<R>>(ctx);
}

template <class R>
Op extreme_op(const char* name) {
  return reduce_op(
      name, infer_extreme<R>, gradient_of_extreme,
      with_i8(reduce_kernels<run_extreme<R>, float, double, int32_t, int64_t, uint8_t>()),
      Precision::same);
}

}  // namespace

const Reduction& greatest_reduction(DType dtype) { return extreme_reduction<Greatest>(dtype); }
const Reduction& least_reduction(DType dtype) { return extreme_reduction<Least>(dtype); }

Op reduce_max_op() { return extreme_op<Greatest>("ReduceMax"); }
Op reduce_min_op() { return extreme_op<Least>("ReduceMin"); }

Output reduce_max(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceMax", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

Output reduce_min(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceMin", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
