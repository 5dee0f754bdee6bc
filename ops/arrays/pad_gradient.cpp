// PadGradient: dx = dy without its borders, where each border element is added to its source
// element in x under that mode. For borders made of elements; constant borders are cut off.
//   dy: [before + n + after, ...]   dx: [n, ...]
// Elements are added border after border, starting with the outermost dimension and index 0.
#include "ops/gradients.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/padding.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  if (pad_mode(ctx) == PadMode::constant)
    throw ctx.error("adds borders of mode reflect, symmetric or edge; cut those of a constant off");
  return {unpadded_shape(ctx, ctx.input(0))};
}

// Writing g for the gradient of dx, the gradient of dy is g padded.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {pad(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("front"),
              ctx.attr<std::vector<int64_t>>("back"), {.mode = pad_mode(ctx)})};
}

template <class T>
struct Fold {
  Shape x;
  const std::vector<int64_t>& before;
  const std::vector<int64_t>& after;
  PadMode mode;
  int64_t elements[Shape::kNdimMax];  // of one slice of dy in dimension d

  // Adds the borders of dimension d's slices to their source elements, then handles the inner
  // slices.
  void take(int d, T* dy, T*& dx) const {
    const int64_t n = x[d], slice = elements[d];
    const int64_t first = before[static_cast<size_t>(d)], last = after[static_cast<size_t>(d)];
    T* inside = dy + first * slice;
    const auto add_to_source = [&](int64_t i) {
      T* to = inside + border_source(mode, i, n) * slice;
      const T* from = inside + i * slice;
      for (int64_t j = 0; j < slice; ++j) to[j] += from[j];
    };
    for (int64_t i = -first; i < 0; ++i) add_to_source(i);
    for (int64_t i = n; i < n + last; ++i) add_to_source(i);
    if (d + 1 < x.ndim()) {
      for (int64_t i = 0; i < n; ++i) take(d + 1, inside + i * slice, dx);
    } else {
      dx = std::copy_n(inside, n, dx);
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape dy_shape = dy.shape(), shape = unpadded_shape(ctx, dy_shape);
  if (shape == dy_shape) return ctx.set_output(0, dy);
  T* dx = ctx.output(0, shape).mutable_data<T>();
  if (shape.size() == 0) return;
  Tensor sums = ctx.scratch(dy.dtype(), dy_shape);
  std::copy_n(dy.data<T>(), dy.size(), sums.mutable_data<T>());
  Fold<T> fold{shape,
               ctx.attr<std::vector<int64_t>>("front"),
               ctx.attr<std::vector<int64_t>>("back"),
               pad_mode(ctx),
               {}};
  for (int d = 0; d < shape.ndim(); ++d)
    fold.elements[d] = size_between(dy_shape, d + 1, dy_shape.ndim());
  fold.take(0, sums.mutable_data<T>(), dx);
}

}  // namespace

Op pad_gradient_op() {
  return {.name = "PadGradient",
          .inputs = {"dy"},
          .outputs = {"dx"},
          .attrs = border_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}}};
}

Output pad_gradient(Output dy, std::vector<int64_t> before, std::vector<int64_t> after,
                    PadMode mode, Origin at) {
  return add_node({.op = "PadGradient",
                   .inputs = {dy},
                   .attrs = border_attrs(std::move(before), std::move(after), mode)},
                  at);
}

}  // namespace troupe
