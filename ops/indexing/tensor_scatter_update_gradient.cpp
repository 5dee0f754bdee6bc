// TensorScatterUpdateGradient: dupdates[i..., :] = dy[indices[i..., 0], ..., indices[i..., k - 1],
// :], but 0 if a later index is equal, because its update replaced this one.
//   dy: any shape   indices: [i..., k], i32 or i64, each within its dimension of dy
//   updates_like: only its shape is read   dupdates: the shape of updates_like.
#include <cstring>

#include "ops/gradients.hpp"
#include "ops/indexing/scatter_nd.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_updates(ctx, ctx.input(0), ctx.input(1), ctx.input(2));
  return {ctx.input(2)};
}

// Linear in dy. Writing g for the gradient of dupdates, the gradient of dy is zeros with the slices
// replaced by g.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {tensor_scatter_update(zeros_like(ctx.input(0)), ctx.input(1), ctx.output_gradient(0)),
          Output{}, Output{}};
}

// Goes backwards from the last index, so that the first one seen of equal indices counts.
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &dy = ctx.input(0), &indices = ctx.input(1);
  const Shape shape = dy.shape(), updates = ctx.input(2).shape();
  const Slices slices =
      named_slices(ctx, indices, shape, coordinates_of(shape, indices.shape(), updates));
  Tensor& output = ctx.output(0, updates);
  if (output.size() == 0) return;
  Tensor seen = ctx.scratch(DType::u8, Shape{dy.size() / slices.width});
  uint8_t* marks = seen.mutable_data<uint8_t>();
  std::memset(marks, 0, static_cast<size_t>(seen.size()));
  const auto bytes = static_cast<size_t>(slices.width * size_of(dy.dtype()));
  const char* from = static_cast<const char*>(dy.raw());
  char* to = static_cast<char*>(output.mutable_raw()) + output.byte_size();
  for (int64_t i = slices.count - 1; i >= 0; --i) {
    const int64_t number = slices.data()[i];
    to -= bytes;
    if (std::exchange(marks[number], uint8_t{1}))
      std::memset(to, 0, bytes);
    else
      std::memcpy(to, from + static_cast<size_t>(number) * bytes, bytes);
  }
}

}  // namespace

Op tensor_scatter_update_gradient_op() {
  return {.name = "TensorScatterUpdateGradient",
          .inputs = {"dy", "indices", "updates_like"},
          .outputs = {"dupdates"},
          .infer_dtypes = infer_scatter_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output tensor_scatter_update_gradient(Output dy, Output indices, Output updates_like, Origin at) {
  return add_node({.op = "TensorScatterUpdateGradient", .inputs = {dy, indices, updates_like}}, at);
}

}  // namespace troupe
