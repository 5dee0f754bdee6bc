// DynamicStitch: y[indices[m][i...], :] = parts[m][i..., :]. If indices are equal, the last one
// counts; slices without an index are 0.
//   indices[m]: [i...], i32 or i64   parts[m]: [i..., rest...]   y: [greatest index + 1, rest...]
#include <cstring>

#include "ops/gradients.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/rows.hpp"
#include "ops/indexing/stitch.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) { return {stitched_dtype(ctx, 0)}; }
std::vector<Shape> infer_shapes(const InferContext& ctx) { return {stitched_shape(ctx, 0)}; }

// Each part gets the slices of dy that it filled; 0 if a later slice replaced it.
std::vector<Output> gradient(const GradientContext& ctx) {
  const std::vector<Output>& inputs = ctx.node().inputs;
  const auto half = static_cast<std::ptrdiff_t>(inputs.size() / 2);
  const std::vector<Output> indices(inputs.begin(), inputs.begin() + half);
  std::vector<Output> gradients(indices.size());
  if (!is_floating(inputs.back().dtype())) return std::vector<Output>(inputs.size());
  const std::vector<Output> parts(inputs.begin() + half, inputs.end());
  for (const Output& g : dynamic_stitch_gradient(ctx.output_gradient(0), indices, parts))
    gradients.push_back(g);
  return gradients;
}

void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const int parts = part_count(ctx.input_count(), 0);
  const int64_t rows = stitched_rows(ctx, 0);
  const Shape part = ctx.input(parts).shape();
  std::vector<int64_t> sizes(part.begin() + ctx.input(0).ndim(), part.end());
  sizes.insert(sizes.begin(), rows);
  Tensor& y = ctx.output(0, Shape(sizes));
  if (y.size() == 0) return;
  std::memset(y.mutable_raw(), 0, static_cast<size_t>(y.byte_size()));
  for (int m = 0; m < parts; ++m)
    with_indices(ctx.input(m), [&](const auto* indices) {
      copy_rows(ctx.input(m).size(), y.byte_size() / rows, ctx.input(parts + m).raw(),
                y.mutable_raw(), same_row, [=](int64_t i) { return int64_t{indices[i]}; });
    });
}

}  // namespace

Op dynamic_stitch_op() {
  return {.name = "DynamicStitch",
          .inputs = {"indices_and_parts..."},
          .outputs = {"y"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::i32, cpu}, {DeviceKind::cpu, DType::i64, cpu}},
          .value_shapes = true};
}

Output dynamic_stitch(const std::vector<Output>& indices, const std::vector<Output>& parts,
                      Origin at) {
  std::vector<Output> inputs = indices;
  inputs.insert(inputs.end(), parts.begin(), parts.end());
  return add_node({.op = "DynamicStitch", .inputs = inputs}, at);
}

}  // namespace troupe
