// MaxPoolSelect: y = the elements of `values` at the positions of max_pool(x)'s maxima (the first
// of equal ones). It is the gradient of max_pool_gradient, so that pools can be differentiated
// twice.
//   values, x: [batch, ..., channels]   y: [batch, ..., channels]
#include "ops/gradients.hpp"
#include "ops/images/pools.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &values = ctx.input(0), &x = ctx.input(1);
  const Shape y = pool_output(ctx, x);
  if (!may_equal(values, x))
    throw ctx.error("wants two shapes that are equal, got ", values, " and ", x);
  return {y};
}

// Writing dy for dL/dy:  dvalues = dy at the selected positions, 0 elsewhere. As a function of x it
// is piecewise constant.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {max_pool_gradient(ctx.output_gradient(0), ctx.input(1), pool_window(ctx.node())),
          Output{}};
}

struct SelectLoop {
  template <class T>
  static void run(const PoolSizes* s, const T* x, const T* values, T* y, int64_t first,
                  int64_t last) {
    const int64_t channels = s->channels;
    for_each_place(s->at, first, last, [=](int64_t out, const Place& place) {
      for (int64_t c = 0; c < channels; c += kChannels) {
        const int64_t n = std::min(kChannels, channels - c);
        T maxima[kChannels], open[kChannels];  // open: 1 until the first maximum
        find_maxima(x + c, channels, n, place, maxima);
        std::fill_n(open, n, T{1});
        T* const selected = y + out * channels + c;
        place.for_each([&](int64_t pixel, auto...) {
          const int64_t at = pixel * channels + c;
          TROUPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) {
            const T value = values[at + i], old = selected[i], is_open = open[i];
            const bool here = is_maximum(x[at + i], maxima[i]);
            selected[i] = (here & (is_open > 0)) ? value : old;
            open[i] = here ? T{0} : is_open;
          }
        });
      }
    });
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  T* y = ctx.output().template mutable_data<T>();
  const Tensor &values = ctx.input(0), &x = ctx.input(1);
  pool_images<SelectLoop>(ctx, pool_sizes(ctx, x.shape()), x.data<T>(), values.data<T>(), y);
}

}  // namespace

Op max_pool_select_op() {
  return {.name = "MaxPoolSelect",
          .inputs = {"values", "x"},
          .outputs = {"y"},
          .attrs = pool_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {pool_kernel<float>(cpu<float>), pool_kernel<double>(cpu<double>)}};
}

Output max_pool_select(Output values, Output x, PoolWindow window, Origin at) {
  return add_node({.op = "MaxPoolSelect", .inputs = {values, x}, .attrs = pool_attrs(window)}, at);
}

Output max_pool2d_select(Output values, Output x, PoolOptions options, Origin at) {
  return max_pool_select(values, x, to_window(options), at);
}

}  // namespace troupe
