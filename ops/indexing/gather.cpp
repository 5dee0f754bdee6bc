// Gather: y[i..., :] = x[indices[i...], :], rows of x.
//   x: [rows, ...] of any dtype   indices: [i...], i32 or i64, each in [0, rows)   y: [i..., ...]
//
// GatherGradient: dx = zeros, then dx[indices[i...], :] += dy[i..., :], in the order of the
// indices.
//   dy: [i..., ...]   indices: [i...], i32 or i64, each in [0, rows)   x_like, dx: [rows, ...]
// Only the shape of x_like is read.
#include <algorithm>
#include <cstring>

#include "graph/op_properties.hpp"
#include "ops/gradients.hpp"
#include "ops/support/indices.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &indices = ctx.input(1);
  if (x.ndim() < 1) throw ctx.error("wants rows to choose from, got a scalar");
  if (x.ndim() - 1 + indices.ndim() > Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions: rows of ", x,
                    " by ", indices);
  return {joined_sizes(indices.dims(), sizes_from(x, 1))};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  if (!is_floating(x.dtype())) return {Output{}, Output{}};
  return {gather_gradient(dy, ctx.input(1), x), Output{}};
}

// Copies rows of one number, without a call for each.
template <size_t kBytes, class I>
void copy_numbers(const char* from, const I* indices, char* to, int64_t count) {
  constexpr auto kStep = static_cast<int64_t>(kBytes);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * kStep, from + indices[i] * kStep, kBytes);
}

template <class I>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const I* indices = ctx.input(1).data<I>();
  const int64_t count = ctx.input(1).size(), rows = x.dim(0);
  check_indices(ctx, indices, count, rows);
  char* y = static_cast<char*>(ctx.output().mutable_raw());
  const char* from = static_cast<const char*>(x.raw());
  const int64_t bytes = rows ? x.byte_size() / rows : 0;
  if (bytes == 0) return;
  if (bytes == 4) return copy_numbers<4>(from, indices, y, count);
  if (bytes == 8) return copy_numbers<8>(from, indices, y, count);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(y + i * bytes, from + indices[i] * bytes, static_cast<size_t>(bytes));
}

constexpr OpProperties kProperties = {.arrangement = {.rows = Arrangement::Rows::taken}};

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
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
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {gather(ctx.output_gradient(0), ctx.input(1)), Output{}, Output{}};
}

template <class T>
void cpu_gradient(KernelContext& ctx) {
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

constexpr OpProperties kGradientProperties = {.arrangement = {.rows = Arrangement::Rows::placed}};

}  // namespace

Op gather_op() {
  return {.name = "Gather",
          .inputs = {"x", "indices"},
          .outputs = {"y"},
          .infer_dtypes = infer_dtype_with_indices,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = index_kernels(cpu<int32_t>, cpu<int64_t>),
          .dispatch = 1,
          .properties = &kProperties};
}

Output gather(Output x, Output indices, Origin at) {
  return add_node({.op = "Gather", .inputs = {x, indices}}, at);
}

Op gather_gradient_op() {
  return {.name = "GatherGradient",
          .inputs = {"dy", "indices", "x_like"},
          .outputs = {"dx"},
          .infer_dtypes = infer_dtype_around_indices,
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = float_kernels(cpu_gradient<float>, cpu_gradient<double>),
          .properties = &kGradientProperties};
}

Output gather_gradient(Output dy, Output indices, Output x_like, Origin at) {
  return add_node({.op = "GatherGradient", .inputs = {dy, indices, x_like}}, at);
}

}  // namespace troupe
