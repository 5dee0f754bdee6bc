// Gather: y[i..., :] = x[indices[i...], :], rows of x.
//   x: [rows, ...] of any dtype   indices: [i...], i32 or i64, each in [0, rows)   y: [i..., ...]
#include <cstring>

#include "graph/op_properties.hpp"
#include "ops/gradients.hpp"
#include "ops/support/indices.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &indices = ctx.input(1);
  if (x.ndim() < 1) throw ctx.error("wants rows to choose from, got a scalar");
  if (x.ndim() - 1 + indices.ndim() > Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions: rows of ", x,
                    " by ", indices);
  std::vector<int64_t> y(indices.begin(), indices.end());
  y.insert(y.end(), x.begin() + 1, x.end());
  return {Shape(y)};
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

}  // namespace

Op gather_op() {
  return {.name = "Gather",
          .inputs = {"x", "indices"},
          .outputs = {"y"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::i32, cpu<int32_t>},
                      {DeviceKind::cpu, DType::i64, cpu<int64_t>}},
          .dispatch = 1,
          .properties = &kProperties};
}

Output gather(Output x, Output indices, Origin at) {
  return add_node({.op = "Gather", .inputs = {x, indices}}, at);
}

}  // namespace troupe
