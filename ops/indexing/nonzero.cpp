// Nonzero: y = the indices of the elements of x that are not 0, in row-major order. NaN is not 0.
//   x: any shape   y: [count, number of dimensions of x], i64.
#include "ops/support/axes.hpp"
#include "ops/support/narrow.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {Shape{-1, ctx.input(0).ndim()}};
}

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape();
  const T* from = x.data<T>();
  const int64_t n = x.size();
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += from[i] != T{0};
  int64_t* y = ctx.output(0, Shape{count, shape.ndim()}).template mutable_data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    if (from[i] == T{0}) continue;
    int64_t rest = i;
    for (int d = shape.ndim() - 1; d > 0; --d) {
      y[d] = rest % shape[d];
      rest /= shape[d];
    }
    if (shape.ndim() > 0) y[0] = rest;
    y += shape.ndim();
  }
}

}  // namespace

Op nonzero_op() {
  return {.name = "Nonzero",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_dtypes = infer_i64,
          .infer_shapes = infer_shapes,
          .no_gradient = "an index is constant wherever it has a slope",
          .kernels = with_i8({{DeviceKind::cpu, DType::f32, cpu<float>},
                              {DeviceKind::cpu, DType::f64, cpu<double>},
                              {DeviceKind::cpu, DType::i32, cpu<int32_t>},
                              {DeviceKind::cpu, DType::i64, cpu<int64_t>},
                              {DeviceKind::cpu, DType::u8, cpu<uint8_t>},
                              {DeviceKind::cpu, DType::boolean, cpu<bool>}}),
          .value_shapes = true};
}

Output nonzero(Output x, Origin at) { return add_node({.op = "Nonzero", .inputs = {x}}, at); }

}  // namespace troupe
