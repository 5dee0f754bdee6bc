// LinSpace: y = `count` equally spaced numbers from start to stop, both included; start alone if
// count is 1.
//   start, stop: scalars   y: [count]
// With step = (stop - start) / (count - 1), element i is start + i * step in the first half and
// stop - (count - 1 - i) * step in the second, in f64: both ends are exact, and errors do not
// accumulate.
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const int64_t count = ctx.attr<int64_t>("count");
  if (count < 0) throw ctx.error("wants a count of at least 0, got ", count);
  if (ctx.input(0).ndim() != 0 || ctx.input(1).ndim() != 0)
    throw ctx.error("wants two scalars, got ", ctx.input(0), " and ", ctx.input(1),
                    "; reshape them to {}");
  return {Shape{count}};
}

// Writing dy for dL/dy, and w for numbers from 0 to 1:  dstart = sum of (1 - w) * dy;  dstop = sum
// of w * dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0), zero = constant_like(0, dy), one = constant_like(1, dy);
  const int64_t count = ctx.attr<int64_t>("count");
  return {reduce_sum(dy * linspace(one, zero, count)), reduce_sum(dy * linspace(zero, one, count))};
}

template <class T>
void cpu(KernelContext& ctx) {
  const double start = ctx.input(0).item<T>(), stop = ctx.input(1).item<T>();
  const int64_t count = ctx.attr<int64_t>("count");
  T* y = ctx.output().template mutable_data<T>();
  if (count == 0) return;
  const double step = (stop - start) / static_cast<double>(count - 1);
  y[0] = static_cast<T>(start);
  if (count > 1) y[count - 1] = static_cast<T>(stop);
  for (int64_t i = 1; i < count - 1; ++i)
    y[i] = static_cast<T>(i < (count + 1) / 2 ? start + static_cast<double>(i) * step
                                              : stop - static_cast<double>(count - 1 - i) * step);
}

}  // namespace

Op linspace_op() {
  return {.name = "LinSpace",
          .inputs = {"start", "stop"},
          .outputs = {"y"},
          .attrs = {{"count", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = float_kernels(cpu<float>, cpu<double>)};
}

Output linspace(Output start, Output stop, int64_t count, Origin at) {
  return add_node({.op = "LinSpace", .inputs = {start, stop}, .attrs = {{"count", count}}}, at);
}

}  // namespace troupe
