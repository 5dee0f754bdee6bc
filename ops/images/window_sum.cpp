// WindowSum: y[..., j] = the sum of x[..., i] for i from j - radius to j + radius, within bounds.
//   x, y: [..., c]. Integers wrap around. Part of local_response_norm.
#include "ops/gradients.hpp"
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const int64_t radius = ctx.attr<int64_t>("radius");
  if (radius < 0) throw ctx.error("wants radius >= 0, got ", radius);
  if (ctx.input(0).ndim() < 1) throw ctx.error("wants x [..., channels], got a scalar");
  return {ctx.input(0)};
}

// j is in i's window if i is in j's, so dx = the same sums of dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {window_sum(ctx.output_gradient(0), ctx.attr<int64_t>("radius"))};
}

struct WindowLoop {
  template <class T>
  static void run(const T* x, T* y, int64_t rows, int64_t c, int64_t radius) {
    for (int64_t row = 0; row < rows; ++row, x += c, y += c) {
      std::fill_n(y, c, T{0});
      for (int64_t d = -radius; d <= radius; ++d) {
        const int64_t begin = std::max<int64_t>(0, -d), end = std::min(c, c - d);
        TROUPE_INDEPENDENT
        for (int64_t j = begin; j < end; ++j) y[j] = Add::apply(y[j], x[j + d]);
      }
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const int64_t c = input.dim(input.ndim() - 1);
  Tensor& output = ctx.output();
  if (output.size() == 0) return;
  in_isa<WindowLoop>(input.data<T>(), output.mutable_data<T>(), output.size() / c, c,
                     std::min(ctx.attr<int64_t>("radius"), c));
}

}  // namespace

Op window_sum_op() {
  return {.name = "WindowSum",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"radius", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = number_kernels(cpu<float>, cpu<double>, cpu<int32_t>, cpu<int64_t>),
          .precision = Precision::wide};
}

Output window_sum(Output x, int64_t radius, Origin at) {
  return add_node({.op = "WindowSum", .inputs = {x}, .attrs = {{"radius", radius}}}, at);
}

}  // namespace troupe
