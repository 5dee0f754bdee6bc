// GatherGradient: dx = zeros, then dx[indices[i...], :] += dy[i..., :], in the order of the
// indices.
//   dy: [i..., ...]   indices: [i...], i32 or i64, each in [0, rows)   x_like, dx: [rows, ...]
// Only the shape of x_like is read.
#include <algorithm>

#include "graph/op_properties.hpp"
#include "ops/gradients.hpp"
#include "ops/support/indices.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  if (ctx.dtype(0) != ctx.dtype(2))
    throw ctx.error("dy and x_like must have one dtype, got ", ctx.dtype(0), " and ", ctx.dtype(2),
                    "; cast one of them");
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dy = ctx.input(0), &indices = ctx.input(1), &x = ctx.input(2);
  bool fits = x.ndim() >= 1 && dy.ndim() == indices.ndim() + x.ndim() - 1;
  for (int d = 0; fits && d < dy.ndim(); ++d)
    fits = may_equal(dy[d], d < indices.ndim() ? indices[d] : x[d - indices.ndim() + 1]);
  if (!fits)
    throw ctx.error("dy ", dy, " is not what rows of ", x, " by indices ", indices,
                    " give; pass the gradient of that gather");
  return {x};
}

// Linear in dy. Writing ddx for dL/d(dx):  ddy = the same rows of ddx.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {gather(ctx.output_gradient(0), ctx.input(1)), Output{}, Output{}};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T* dy = ctx.input(0).data<T>();
  const int64_t rows = ctx.input(2).dim(0), count = ctx.input(1).size();
  const int64_t width = rows ? ctx.input(2).size() / rows : 0;
  with_indices(ctx.input(1), [&](const auto* indices) {
    check_indices(ctx, indices, count, rows);
    Tensor& output = ctx.output();
    T* dx = output.mutable_data<T>();
    std::fill_n(dx, output.size(), T{0});
    for (int64_t i = 0; i < count; ++i, dy += width) {
      T* row = dx + indices[i] * width;
      for (int64_t j = 0; j < width; ++j) row[j] += dy[j];
    }
  });
}

constexpr OpProperties kProperties = {.arrangement = {.rows = Arrangement::Rows::placed}};

}  // namespace

Op gather_gradient_op() {
  return {.name = "GatherGradient",
          .inputs = {"dy", "indices", "x_like"},
          .outputs = {"dx"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}},
          .properties = &kProperties};
}

Output gather_gradient(Output dy, Output indices, Output x_like, Origin at) {
  return add_node({.op = "GatherGradient", .inputs = {dy, indices, x_like}}, at);
}

}  // namespace troupe
