// DynamicStitchGradient: dparts[m][i..., :] = dy[indices[m][i...], :], but 0 if a later index is
// equal, because the slice was replaced then.
//   dy: [greatest index + 1, rest...]   indices[m]: [i...], i32 or i64
//   parts_like[m]: only the shape is read   dparts[m]: the shape of parts_like[m].
#include <cstring>

#include "ops/gradients.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/indexing/stitch.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  const DType dtype = stitched_dtype(ctx, 1);
  if (ctx.dtype(0) != dtype)
    throw ctx.error("dy and parts must have one dtype, got ", ctx.dtype(0), " and ", dtype,
                    "; cast one of them");
  return std::vector<DType>(static_cast<size_t>(part_count(ctx.input_count(), 1)), dtype);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape wanted = stitched_shape(ctx, 1);
  if (!may_equal(ctx.input(0), wanted))
    throw ctx.error("wants dy of shape ", wanted, ", the parts stitched together, got ",
                    ctx.input(0));
  std::vector<Shape> parts;
  for (int i = 1 + part_count(ctx.input_count(), 1); i < ctx.input_count(); ++i)
    parts.push_back(ctx.input(i));
  return parts;
}

// Linear in dy. Writing g for the gradients of dparts, the gradient of dy is g stitched together; a
// part without a gradient counts as zeros.
std::vector<Output> gradient(const GradientContext& ctx) {
  const int parts = part_count(ctx.input_count(), 1);
  std::vector<Output> indices, gs, gradients(static_cast<size_t>(ctx.input_count()));
  for (int m = 0; m < parts; ++m) {
    const Output g = ctx.output_gradient(m);
    indices.push_back(ctx.input(1 + m));
    gs.push_back(g.defined() ? g : zeros_like(ctx.input(1 + parts + m)));
  }
  gradients[0] = dynamic_stitch(indices, gs);
  return gradients;
}

// Goes backwards from the last index of the last part, so that the first one seen of equal indices
// counts.
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& dy = ctx.input(0);
  const int parts = part_count(ctx.input_count(), 1);
  const int64_t rows = stitched_rows(ctx, 1);
  if (dy.dim(0) != rows)
    throw ctx.error("dy has ", dy.dim(0), " rows, but the greatest index is ", rows - 1,
                    "; pass the gradient of what was stitched with these indices");
  Tensor seen = ctx.scratch(DType::u8, Shape{rows});
  uint8_t* marks = seen.mutable_data<uint8_t>();
  if (rows > 0) std::memset(marks, 0, static_cast<size_t>(rows));
  const auto bytes = static_cast<size_t>(rows ? dy.byte_size() / rows : 0);
  const char* from = static_cast<const char*>(dy.raw());
  for (int m = parts - 1; m >= 0; --m) {
    Tensor& part = ctx.output(m, ctx.input(1 + parts + m).shape());
    if (bytes == 0 || part.size() == 0) continue;
    char* to = static_cast<char*>(part.mutable_raw()) + part.byte_size();
    const Tensor& numbers = ctx.input(1 + m);
    with_indices(numbers, [&](const auto* indices) {
      for (int64_t i = numbers.size() - 1; i >= 0; --i) {
        const auto row = static_cast<size_t>(indices[i]);
        to -= bytes;
        if (std::exchange(marks[row], uint8_t{1}))
          std::memset(to, 0, bytes);
        else
          std::memcpy(to, from + row * bytes, bytes);
      }
    });
  }
}

}  // namespace

Op dynamic_stitch_gradient_op() {
  return {.name = "DynamicStitchGradient",
          .inputs = {"dy", "indices_and_parts_like..."},
          .outputs = {"dparts..."},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

std::vector<Output> dynamic_stitch_gradient(Output dy, const std::vector<Output>& indices,
                                            const std::vector<Output>& parts_like, Origin at) {
  std::vector<Output> inputs = {dy};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  inputs.insert(inputs.end(), parts_like.begin(), parts_like.end());
  return all_outputs(add_node({.op = "DynamicStitchGradient", .inputs = inputs}, at));
}

}  // namespace troupe
