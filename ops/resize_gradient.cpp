// ResizeGradient: dL/dx of y = resize(x): what each output was made of gets its share of dy.
//   dy: [batch, height, width, channels], f32 or f64   x_like: only its shape is used   dx: the
//   shape of x_like
#include <algorithm>

#include "devices/isa.hpp"
#include "ops/resize.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dy = ctx.input(0), &x = ctx.input(1);
  if (dy.ndim() != 4) throw ctx.error("wants dy [batch, height, width, channels], got ", dy);
  check_resize(ctx, x, dy[1], dy[2]);
  if (!may_equal(dy[0], x[0]) || !may_equal(dy[3], x[3]))
    throw ctx.error("dy ", dy, " has other images or channels than x ", x);
  return {x};
}

// It is linear in dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output g = ctx.output_gradient(0), dy = ctx.input(0);
  if (dy.shape()[1] < 0 || dy.shape()[2] < 0)
    throw Error(Errc::invalid_argument, describe(ctx.node()),
                ": its gradient needs the height and width of dy, got ", dy.shape());
  return {resize(g, dy.shape()[1], dy.shape()[2], resize_options(ctx.node())), Output{}};
}

struct RowLoop {
  template <class T>
  static void run(const T* dy, T* top, T* bottom, T down, const int64_t* low, const int64_t* high,
                  const double* weight, int64_t width, int64_t c) {
    for (int64_t j = 0; j < width; ++j, dy += c) {
      const T across = static_cast<T>(weight[j]);
      T *a = top + low[j] * c, *b = top + high[j] * c;
      T *d = bottom + low[j] * c, *e = bottom + high[j] * c;
      for (int64_t k = 0; k < c; ++k) {  // some of the four may be one
        const T lower = dy[k] * down, upper = dy[k] - lower;
        const T upper_right = upper * across, lower_right = lower * across;
        a[k] += upper - upper_right;
        b[k] += upper_right;
        d[k] += lower - lower_right;
        e[k] += lower_right;
      }
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Shape from = ctx.input(0).shape(), x = ctx.input(1).shape();
  const ResizeOptions options = resize_options(ctx.node());
  const T* dy = ctx.input(0).data<T>();
  T* dx = ctx.output(0, x).template mutable_data<T>();
  if (x.size() == 0) return;
  const ResizeTable rows = resize_table(x[1], from[1], options);
  const ResizeTable columns = resize_table(x[2], from[2], options);
  const int64_t line = x[2] * x[3];
  ctx.parallel(x[0], [&](int64_t b) {
    T* image = dx + b * x[1] * line;
    std::fill_n(image, x[1] * line, T{0});
    for (int64_t i = 0; i < from[1]; ++i) {
      const auto row = static_cast<size_t>(i);
      in_isa<RowLoop>(dy + (b * from[1] + i) * from[2] * x[3], image + rows.low[row] * line,
                      image + rows.high[row] * line, static_cast<T>(rows.weight[row]),
                      columns.low.data(), columns.high.data(), columns.weight.data(), from[2],
                      x[3]);
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
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}}};
}

Output resize_gradient(Output dy, Output x_like, ResizeOptions options, Origin at) {
  return add_node({.op = "ResizeGradient", .inputs = {dy, x_like}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
