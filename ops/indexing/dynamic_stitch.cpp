// DynamicStitch: y[indices[m][i...], :] = parts[m][i..., :]. If indices are equal, the last one
// counts; slices without an index are 0.
//   indices[m]: [i...], i32 or i64   parts[m]: [i..., rest...]   y: [greatest index + 1, rest...]
//
// DynamicStitchGradient: dparts[m][i..., :] = dy[indices[m][i...], :], but 0 if a later index is
// equal, because the slice was replaced then.
//   dy: [greatest index + 1, rest...]   indices[m]: [i...], i32 or i64
//   parts_like[m]: only the shape is read   dparts[m]: the shape of parts_like[m].
//
// The last inputs of both are n tensors of indices, then n parts, with the same `rest` for all.
#include <cstring>

#include "ops/gradients.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/indices.hpp"
#include "ops/support/rows.hpp"

namespace troupe {
namespace {

// The number of parts after the first `before` inputs.
int part_count(int input_count, int before) { return (input_count - before) / 2; }

// For infer_dtypes: the dtype of the parts.
DType stitched_dtype(const InferContext& ctx, int before) {
  const int parts = part_count(ctx.input_count(), before);
  if (parts < 1 || ctx.input_count() != before + 2 * parts)
    throw ctx.error("wants as many parts as tensors of indices, got ", ctx.input_count() - before,
                    " of both together");
  for (int m = 0; m < parts; ++m) {
    require_index_dtype(ctx, before + m);
    const DType first = ctx.dtype(before + parts), other = ctx.dtype(before + parts + m);
    if (first != other)
      throw ctx.error("parts must have one dtype, got ", first, " and ", other,
                      "; cast one of them");
  }
  return ctx.dtype(before + parts);
}

// For infer_shapes: [-1, rest...]. Throws: Error if the parts do not fit their indices or each
// other.
Shape stitched_shape(const InferContext& ctx, int before) {
  const int parts = part_count(ctx.input_count(), before);
  std::vector<int64_t> y;
  for (int m = 0; m < parts; ++m) {
    const Shape &indices = ctx.input(before + m), &part = ctx.input(before + parts + m);
    const int outer = indices.ndim(), rest = part.ndim() - outer;
    if (!begins_with(part, indices))
      throw ctx.error("part ", m, " is ", part, ", but its indices are ", indices,
                      "; it has their sizes first");
    if (m == 0) y.resize(static_cast<size_t>(rest) + 1, -1);
    bool fits = y.size() == static_cast<size_t>(rest) + 1;
    for (int d = 0; fits && d < rest; ++d) {
      int64_t& size = y[static_cast<size_t>(d) + 1];
      fits = may_equal(size, part[outer + d]);
      if (size < 0) size = part[outer + d];
    }
    if (!fits)
      throw ctx.error("part ", m, " is ", part, " for indices ", indices,
                      "; behind the sizes of the indices, all parts have the same sizes");
  }
  if (y.size() > Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions");
  return Shape(y);
}

// The greatest index + 1. Throws: Error with the first index that is negative or too large.
int64_t stitched_rows(const KernelContext& ctx, int before) {
  constexpr int64_t kRowsMax = int64_t{1} << 40;  // more than any memory holds
  int64_t rows = 0;
  for (int m = 0; m < part_count(ctx.input_count(), before); ++m) {
    const Tensor& indices = ctx.input(before + m);
    with_indices(indices, [&](const auto* from) {
      for (int64_t i = 0; i < indices.size(); ++i) {
        if (from[i] < 0 || from[i] >= kRowsMax)
          throw ctx.error("index ", from[i], " (number ", i, " of part ", m,
                          ") is not in [0, 2^40); indices count from 0");
        rows = std::max<int64_t>(rows, from[i] + int64_t{1});
      }
    });
  }
  return rows;
}

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
  Tensor& y = ctx.output(0, shape_with_rows(rows, sizes_from(part, ctx.input(0).ndim())));
  if (y.size() == 0) return;
  std::memset(y.mutable_raw(), 0, static_cast<size_t>(y.byte_size()));
  for (int m = 0; m < parts; ++m)
    with_indices(ctx.input(m), [&](const auto* indices) {
      copy_rows(ctx.input(m).size(), y.byte_size() / rows, ctx.input(parts + m).raw(),
                y.mutable_raw(), same_row, [=](int64_t i) { return int64_t{indices[i]}; });
    });
}

std::vector<DType> infer_gradient_dtypes(const InferContext& ctx) {
  const DType dtype = stitched_dtype(ctx, 1);
  if (ctx.dtype(0) != dtype)
    throw ctx.error("dy and parts must have one dtype, got ", ctx.dtype(0), " and ", dtype,
                    "; cast one of them");
  return std::vector<DType>(static_cast<size_t>(part_count(ctx.input_count(), 1)), dtype);
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
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
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  const int parts = part_count(ctx.input_count(), 1);
  std::vector<Output> indices, gs, gradients(static_cast<size_t>(ctx.input_count()));
  for (int m = 0; m < parts; ++m) {
    indices.push_back(ctx.input(1 + m));
    gs.push_back(output_gradient_or_zeros(ctx, m, ctx.input(1 + parts + m)));
  }
  gradients[0] = dynamic_stitch(indices, gs);
  return gradients;
}

// Goes backwards from the last index of the last part, so that the first one seen of equal indices
// counts.
void cpu_gradient(KernelContext& ctx) {
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

Op dynamic_stitch_op() {
  return {.name = "DynamicStitch",
          .inputs = {"indices_and_parts..."},
          .outputs = {"y"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = index_kernels(cpu, cpu),
          .value_shapes = true};
}

Output dynamic_stitch(const std::vector<Output>& indices, const std::vector<Output>& parts,
                      Origin at) {
  std::vector<Output> inputs = indices;
  inputs.insert(inputs.end(), parts.begin(), parts.end());
  return add_node({.op = "DynamicStitch", .inputs = inputs}, at);
}

Op dynamic_stitch_gradient_op() {
  return {.name = "DynamicStitchGradient",
          .inputs = {"dy", "indices_and_parts_like..."},
          .outputs = {"dparts..."},
          .infer_dtypes = infer_gradient_dtypes,
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu_gradient}}};
}

std::vector<Output> dynamic_stitch_gradient(Output dy, const std::vector<Output>& indices,
                                            const std::vector<Output>& parts_like, Origin at) {
  std::vector<Output> inputs = {dy};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  inputs.insert(inputs.end(), parts_like.begin(), parts_like.end());
  return all_outputs(add_node({.op = "DynamicStitchGradient", .inputs = inputs}, at));
}

}  // namespace troupe
