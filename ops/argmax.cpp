// ArgMax: y = the index of the greatest x along `axis`; the first of equals. NaN counts as greater
// than all numbers.
//   x: [..., n, ...], n >= 1   y: i64, the shape of x without `axis`. Negative axes count from the
//   end.
#include "ops/axes.hpp"
#include "ops/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext&) { return {DType::i64}; }

// Context: InferContext or KernelContext.
template <class Context>
int axis_with_choice(const Context& ctx, const Shape& x) {
  const int axis = checked_axis(ctx, ctx.template attr<int64_t>("axis"), x.ndim());
  if (x[axis] == 0)
    throw ctx.error("has nothing to choose from along axis ", axis, " of ", x,
                    "; name an axis with elements");
  return axis;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape& x = ctx.input(0);
  const int axis = axis_with_choice(ctx, x);
  std::vector<int64_t> y(x.begin(), x.end());
  y.erase(y.begin() + axis);
  return {Shape(y)};
}

template <class T>
void cpu(KernelContext& ctx) {
  const Shape shape = ctx.input(0).shape();
  const T* x = ctx.input(0).data<T>();
  const int axis = axis_with_choice(ctx, shape);
  Tensor& output = ctx.output();
  if (output.size() == 0) return;
  int64_t* y = output.mutable_data<int64_t>();
  const int64_t outer = size_between(shape, 0, axis), n = shape[axis];
  const int64_t inner = size_between(shape, axis + 1, shape.ndim());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const T* line = x + o * n * inner + i;
      int64_t best = 0;
      for (int64_t j = 1; j < n; ++j) {
        const T v = line[j * inner], b = line[best * inner];
        if (v > b || (v != v && b == b)) best = j;
      }
      y[o * inner + i] = best;
    }
}

}  // namespace

Op argmax_op() {
  return {.name = "ArgMax",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"axis", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "an index is constant wherever it has a slope",
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>},
                      {DeviceKind::cpu, DType::i32, cpu<int32_t>},
                      {DeviceKind::cpu, DType::i64, cpu<int64_t>},
                      {DeviceKind::cpu, DType::u8, cpu<uint8_t>}}};
}

Output argmax(Output x, int64_t axis, Origin at) {
  return add_node({.op = "ArgMax", .inputs = {x}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe
