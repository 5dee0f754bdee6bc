// ResizeGradient: dx = for each pixel of x, the sum over the pixels of y that it contributed to, of
// dy times its part.
//   dy: [batch, height, width, channels], floats   x_like: [batch, h, w, channels], only its shape
//   is read   dx: the shape of x_like.
#include "devices/threads/isa.hpp"
#include "ops/images/resizing.hpp"

namespace troupe {
namespace {

template <class Context>
void check_shapes(const Context& ctx, const Shape& dy, const Shape& x) {
  const Shape wanted = resized_shape(ctx, x);
  if (!may_equal(dy, wanted))
    throw ctx.error("wants dy of shape ", wanted, ", that of ", x, " resized, got ", dy);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  resize_options(ctx);
  check_shapes(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Linear in dy. Writing g for the gradient of dx, the gradient of dy is resize(g).
std::vector<Output> gradient(const GradientContext& ctx) {
  const auto& size = ctx.attr<std::vector<int64_t>>("size");
  return {resize(ctx.output_gradient(0), size[0], size[1],
                 resize_options(InferContext(ctx.node(), {}))),
          Output{}};
}

struct AddRow {
  template <class T>
  static void run(const T* x, T factor, T* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] += x[i] * factor;
  }
};

template <class T>
void scatter_along(const Neighbours& across, int64_t width, int64_t c, const T* dy, T* dx) {
  const int64_t *low = across.low.data<int64_t>(), *high = across.high.data<int64_t>();
  const double* parts = across.part.data<double>();
  for (int64_t i = 0; i < width; ++i, dy += c) {
    const T part = static_cast<T>(parts[i]);
    T *a = dx + low[i] * c, *b = dx + high[i] * c;
    for (int64_t k = 0; k < c; ++k) a[k] += dy[k] * (1 - part);
    if (part == 0) continue;
    for (int64_t k = 0; k < c; ++k) b[k] += dy[k] * part;
  }
}

// One image after the other: first along a row of dy, then into one or two rows of dx.
template <class T>
void cpu(KernelContext& ctx) {
  const Shape shape = ctx.input(1).shape(), y = ctx.input(0).shape();
  check_shapes(ctx, y, shape);
  const T* dy = ctx.input(0).data<T>();
  T* dx = ctx.output(0, shape).template mutable_data<T>();
  const int64_t line = shape[2] * shape[3], image = shape[1] * line, batch = shape[0];
  if (batch * image == 0) return;
  const ResizeOptions options = resize_options(ctx);
  const Neighbours down = neighbours(ctx, shape[1], y[1], options);
  const Neighbours across = neighbours(ctx, shape[2], y[2], options);
  const int64_t more = y[1] * y[2] * y[3];
  const int64_t images = std::max<int64_t>(1, kElementsOfJob / std::max(image, more));
  const int64_t jobs = (batch + images - 1) / images;
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{jobs, line});
  T* rows = scratch.mutable_data<T>();
  const int64_t *low = down.low.data<int64_t>(), *high = down.high.data<int64_t>();
  const double* parts = down.part.data<double>();
  ctx.parallel(jobs, [&](int64_t job) {
    T* row = rows + job * line;
    for (int64_t b = job * images; b < std::min(batch, (job + 1) * images); ++b) {
      T* to = dx + b * image;
      std::fill_n(to, image, T{0});
      for (int64_t r = 0; r < y[1]; ++r) {
        const T part = static_cast<T>(parts[r]);
        std::fill_n(row, line, T{0});
        scatter_along(across, y[2], y[3], dy + b * more + r * y[2] * y[3], row);
        in_isa<AddRow>(row, 1 - part, to + low[r] * line, line);
        if (part != 0) in_isa<AddRow>(row, part, to + high[r] * line, line);
      }
    }
  });
}

}  // namespace

Op resize_gradient_op() {
  return {.name = "ResizeGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = resize_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = float_kernels(cpu<float>, cpu<double>)};
}

Output resize_gradient(Output dy, Output x_like, int64_t height, int64_t width,
                       ResizeOptions options, Origin at) {
  return add_node(
      {.op = "ResizeGradient", .inputs = {dy, x_like}, .attrs = to_attrs(height, width, options)},
      at);
}

}  // namespace troupe
