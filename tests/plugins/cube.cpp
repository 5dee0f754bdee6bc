// A valid plugin: Cube with a gradient made of ops, and two ops with misbehaving kernels.
#include "troupe/ops.hpp"
#include "troupe/custom_op.hpp"

namespace {

using namespace troupe;

std::vector<Shape> like_input(const InferContext& ctx) { return {ctx.input(0)}; }

void cubes(KernelContext& ctx) {
  const Tensor x = ctx.input(0);
  Tensor& y = ctx.output(0, x.shape());
  with_type(x.dtype(), [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T>)
      for (int64_t i = 0; i < x.size(); ++i)
        y.mutable_data<T>()[i] = x.data<T>()[i] * x.data<T>()[i] * x.data<T>()[i];
  });
}

std::vector<Output> cube_gradient(const GradientContext& ctx) {
  return {ctx.output_gradient(0) * square(ctx.input(0)) * 3};
}

void add_ops(Registry& ops) {
  ops.add(
      {.name = "Cube",
       .inputs = {"x"},
       .outputs = {"y"},
       .infer_shapes = like_input,
       .gradient = cube_gradient,
       .kernels = {{DeviceKind::cpu, DType::f32, cubes}, {DeviceKind::cpu, DType::f64, cubes}}});
  ops.add({.name = "ThrowsInKernel",
           .inputs = {"x"},
           .outputs = {"y"},
           .infer_shapes = like_input,
           .no_gradient = "it has no value",
           .kernels = {{DeviceKind::cpu, DType::none, [](KernelContext&) { throw 7; }}}});
  ops.add({.name = "OtherShape",
           .inputs = {"x"},
           .outputs = {"y"},
           .infer_shapes = like_input,
           .no_gradient = "it has no value",
           .kernels = {{DeviceKind::cpu, DType::none,
                        [](KernelContext& ctx) { ctx.output(0, Shape{77}); }}}});
}

}  // namespace

TROUPE_PLUGIN(add_ops)
