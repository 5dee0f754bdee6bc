// Clip: y = x moved to the nearest number in [low, high], element-wise; NaN stays NaN.
//   low <= high: of x's dtype, or infinite where there is no bound. Bounds that are tensors:
//   minimum(maximum(x, low), high).
#include <cmath>
#include <limits>

#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"
#include "ops/elementwise/number.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const double low = ctx.attr<double>("low"), high = ctx.attr<double>("high");
  if (!(low <= high))
    throw ctx.error("wants low <= high, got ", low, " and ", high, "; swap them, or name a number");
  for (const double bound : {low, high})
    if (std::isfinite(bound) && !fits(bound, ctx.dtype(0)))
      throw ctx.error("the bound ", bound, " is no ", ctx.dtype(0),
                      " value; cast x to f32, or write a bound that fits");
  return {ctx.input(0)};
}

// Writing dy for dL/dy:  dx = dy where x is in [low, high], else 0.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0);
  return {where(equal(ctx.input(0), ctx.output(0)), dy, constant_like(0, dy))};
}

// An infinite bound of integers: the least or the greatest of them.
template <class T>
T bound_of(double bound) {
  if (std::is_floating_point_v<T> || std::isfinite(bound)) return static_cast<T>(bound);
  return bound < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
}

struct ClipLoop {
  template <class T>
  static void run(const T* x, T* y, int64_t n, T low, T high) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const T raised = x[i] < low ? low : x[i];
      y[i] = raised > high ? high : raised;
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  const T low = bound_of<T>(ctx.attr<double>("low")), high = bound_of<T>(ctx.attr<double>("high"));
  T* y = ctx.output_in_place().template mutable_data<T>();
  in_isa<ClipLoop>(x, y, n, low, high);
}

template <class T>
void elements(const ElementRun& run) {
  const T low = bound_of<T>(run.node->attr<double>("low"));
  const T high = bound_of<T>(run.node->attr<double>("high"));
  T* y = static_cast<T*>(run.output);
  in_isa<ClipLoop>(static_cast<const T*>(run.inputs[0]), y, run.once[0] ? 1 : run.n, low, high);
  if (run.once[0]) std::fill_n(y + 1, run.n - 1, *y);
}

template <class T>
Kernel kernel() {
  return {.dtype = dtype_of<T>, .run = cpu<T>, .elements = elements<T>};
}

}  // namespace

Op clip_op() {
  return {.name = "Clip",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"low", AttrKind::real}, {"high", AttrKind::real}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = with_i8({kernel<float>(), kernel<double>(), kernel<int32_t>(),
                              kernel<int64_t>(), kernel<uint8_t>()}),
          .in_place = true};
}

Output clip(Output x, double low, double high, Origin at) {
  return add_node({.op = "Clip", .inputs = {x}, .attrs = {{"low", low}, {"high", high}}}, at);
}

}  // namespace troupe
