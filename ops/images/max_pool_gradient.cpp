// MaxPoolGradient: dx = dL/dx of y = max_pool(x), from dy = dL/dy: every dy goes to the first
// maximum of its window in row-major order; the values of one pixel are summed in the order of y.
//   dy: [batch, ..., channels]   x, dx: [batch, ..., channels]
#include "devices/kernel_call.hpp"
#include "ops/gradients.hpp"
#include "ops/images/max_pool_back.hpp"

namespace troupe {
namespace {

// Linear in dy. Writing ddx for dL/d(dx):  ddy = ddx at the maxima. As a function of x it is
// piecewise constant.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {max_pool_select(ctx.output_gradient(0), ctx.input(1), pool_window(ctx.node())), Output{}};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  T* dx = ctx.output().template mutable_data<T>();
  const T *dy = ctx.input(0).data<T>(), *x = ctx.input(1).data<T>();
  const PoolSizes sizes = pool_sizes(ctx, ctx.input(1).shape());
  const int64_t size = sizes.x_image();
  const bool pairs = is_of_pairs(sizes);
  const bool apart = std::all_of(sizes.at.begin(), sizes.at.end(),
                                 [](const Sliding& d) { return d.stride >= d.window; });
  in_pooled_images<char>(ctx, sizes, 0, [&](int64_t first, int64_t last, char*) {
    for (int64_t b = first; b < last; ++b) {  // one by one, so that each fits the cache
      if (pairs)
        in_isa<PairBackLoop>(&sizes, x, dy, dx, b, b + 1);
      else if (apart)
        max_pool_back_apart(&sizes, x, dy, dx, b, b + 1);
      else
        max_pool_back_shared(&sizes, x, dy, dx, b, b + 1);
      KernelCall::of(ctx).finish(b * size, size);
    }
  });
}

}  // namespace

Op max_pool_gradient_op() {
  return {
      .name = "MaxPoolGradient",
      .inputs = {"dy", "x"},
      .outputs = {"dx"},
      .attrs = pool_attrs(),
      .infer_shapes = infer_pool_gradient,
      .gradient = gradient,
      .kernels = {pool_kernel<float>(cpu<float>, true), pool_kernel<double>(cpu<double>, true)}};
}

Output max_pool_gradient(Output dy, Output x, PoolWindow window, Origin at) {
  return add_node({.op = "MaxPoolGradient", .inputs = {dy, x}, .attrs = pool_attrs(window)}, at);
}

Output max_pool2d_gradient(Output dy, Output x, PoolOptions options, Origin at) {
  return max_pool_gradient(dy, x, to_window(options), at);
}

}  // namespace troupe
