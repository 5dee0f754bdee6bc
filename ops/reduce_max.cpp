// ReduceMax: y = the greatest of x over axes (all of them when none is named); NaN if there is one.
// Refuses to choose from nothing.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims.
#include "ops/reduce.hpp"

namespace troupe {
namespace {

template <class Context>
void check_not_empty(const Context& ctx, const Shape& x, uint32_t axes) {
  for (int d = 0; d < x.ndim(); ++d)
    if ((axes >> d & 1) && x[d] == 0)
      throw ctx.error("there is no greatest of no elements: axis ", d, " of ", x,
                      "; reduce over axes with elements");
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_not_empty(ctx, ctx.input(0), reduced_axes(ctx, ctx.input(0).ndim()));
  return infer_reduced(ctx);
}

// Writing dy for dL/dy:  the greatest elements share dy equally, the others get nothing. NaN is the
// greatest where there is one, though it equals nothing.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), y = ctx.output(0), dy = ctx.output_gradient(0);
  const ReduceOptions options = reduce_options(ctx.node());
  const Output equals = cast(equal(x, reduce_gradient(y, x, options)), x.dtype());
  const Output greatest = where(equal(x, x), equals, constant_like(1, x));
  const Output share = divide(dy, reduce_sum(greatest, options));
  return {multiply(greatest, reduce_gradient(share, x, options))};
}

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const uint32_t axes = reduced_axes(ctx, x.ndim());
  check_not_empty(ctx, x.shape(), axes);
  const ReduceView view = reduce_view(ctx, x, axes);
  reduce_all<Maximum>(view, ctx.output().mutable_data<T>());
}

}  // namespace

Op reduce_max_op() {
  return {.name = "ReduceMax",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = reduce_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>},
                      {DeviceKind::cpu, DType::i32, cpu<int32_t>},
                      {DeviceKind::cpu, DType::i64, cpu<int64_t>},
                      {DeviceKind::cpu, DType::u8, cpu<uint8_t>}}};
}

Output reduce_max(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceMax", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
