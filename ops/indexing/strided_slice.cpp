// StridedSlice: y = x[begin:end:stride, ...] as in NumPy, with one begin, end and stride for each
// entry; each entry handles one dimension of x, in order.
//   A negative begin or end counts from the end; past the ends, both are clamped. A negative stride
//   goes backwards. Bit i of a mask applies to entry i: begin_mask and end_mask: from the start, to
//   the end, in the direction of the stride; ellipsis_mask: all dimensions that no other entry
//   takes (without an ellipsis, those are the last ones); new_axis_mask: a dimension of size 1 that
//   x does not have; shrink_axis_mask: the index `begin` alone, and y lacks the dimension. If
//   several bits are set, ellipsis has priority over new axis, and new axis over shrink.
#include "ops/indexing/strided_slice.hpp"

#include "ops/gradients.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {stepped_box(ctx, ctx.input(0)).y};
}

// Writing dy for dL/dy:  dx = dy at the sliced elements, zeros elsewhere.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {strided_slice_gradient(
      ctx.output_gradient(0), ctx.input(0), ctx.attr<std::vector<int64_t>>("begin"),
      ctx.attr<std::vector<int64_t>>("end"), strided_slice_options(ctx.node()))};
}

// Consecutive rows share x's memory.
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape();
  const SteppedBox box = stepped_box(ctx, shape);
  int whole = shape.ndim();  // the first of the dimensions that are taken whole
  while (whole > 0 && box.is_whole(shape, whole - 1)) --whole;
  if (whole == 0) return ctx.set_output(0, x.reshaped(box.y));
  if (whole == 1 && box.step[0] == 1)
    return ctx.set_output(0, x.rows(box.begin[0], box.begin[0] + box.sizes[0]).reshaped(box.y));
  Tensor& y = ctx.output(0, box.y);
  const Strides strides = dense_strides(shape);
  const int64_t element_size = size_of(x.dtype());
  copy_strided(ctx, element_size, box.sizes,
               static_cast<const char*>(x.raw()) + box.first(strides) * element_size,
               box.walked(strides), y.mutable_raw(), dense_strides(box.sizes));
}

}  // namespace

std::vector<AttrSpec> strided_slice_attrs() {
  return {{"begin", AttrKind::integers},
          {"end", AttrKind::integers},
          {"strides", AttrKind::integers, std::vector<int64_t>{}},
          {"begin_mask", AttrKind::integer, int64_t{0}},
          {"end_mask", AttrKind::integer, int64_t{0}},
          {"ellipsis_mask", AttrKind::integer, int64_t{0}},
          {"new_axis_mask", AttrKind::integer, int64_t{0}},
          {"shrink_axis_mask", AttrKind::integer, int64_t{0}}};
}

Attrs strided_slice_attrs(std::vector<int64_t> begin, std::vector<int64_t> end,
                          const StridedSliceOptions& options) {
  return {{"begin", std::move(begin)},
          {"end", std::move(end)},
          {"strides", options.strides},
          {"begin_mask", options.begin_mask},
          {"end_mask", options.end_mask},
          {"ellipsis_mask", options.ellipsis_mask},
          {"new_axis_mask", options.new_axis_mask},
          {"shrink_axis_mask", options.shrink_axis_mask}};
}

StridedSliceOptions strided_slice_options(const Node& node) {
  return {.strides = node.attr<std::vector<int64_t>>("strides"),
          .begin_mask = node.attr<int64_t>("begin_mask"),
          .end_mask = node.attr<int64_t>("end_mask"),
          .ellipsis_mask = node.attr<int64_t>("ellipsis_mask"),
          .new_axis_mask = node.attr<int64_t>("new_axis_mask"),
          .shrink_axis_mask = node.attr<int64_t>("shrink_axis_mask")};
}

Op strided_slice_op() {
  return {.name = "StridedSlice",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = strided_slice_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output strided_slice(Output x, std::vector<int64_t> begin, std::vector<int64_t> end,
                     StridedSliceOptions options, Origin at) {
  return add_node({.op = "StridedSlice",
                   .inputs = {x},
                   .attrs = strided_slice_attrs(std::move(begin), std::move(end), options)},
                  at);
}

}  // namespace troupe
