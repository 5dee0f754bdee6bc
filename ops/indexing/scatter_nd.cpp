// ScatterNd: y = zeros, then y[indices[i..., 0], ..., indices[i..., k - 1], :] += updates[i..., :],
// in the order of the indices.
//   indices: [i..., k], i32 or i64, each within its dimension of `shape`
//   updates: [i..., sizes of `shape` from dimension k on]   y: `shape`
#include "ops/indexing/scatter_nd.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  return {ctx.dtype(1)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(1));
  const Shape& shape = ctx.attr<Shape>("shape");
  if (!shape.is_known())
    throw ctx.error("wants a shape without -1, got ", shape,
                    "; for the shape of another value, use tensor_scatter_add with zeros like it");
  check_updates(ctx, shape, ctx.input(0), ctx.input(1));
  return {shape};
}

// Writing dy for dL/dy:  dupdates = the slices of dy at the indices.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output indices = ctx.input(0), updates = ctx.input(1);
  const int k = coordinates_of(ctx.attr<Shape>("shape"), indices.shape(), updates.shape());
  return {Output{}, gather_nd(ctx.output_gradient(0), indices, k)};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &indices = ctx.input(0), &updates = ctx.input(1);
  const Shape& shape = ctx.attr<Shape>("shape");
  const Slices slices =
      named_slices(ctx, indices, shape, coordinates_of(shape, indices.shape(), updates.shape()));
  Tensor& output = ctx.output();
  if (output.size() == 0) return;
  T* y = output.mutable_data<T>();
  std::fill_n(y, output.size(), T{0});
  scatter<Add>(slices, updates.data<T>(), y);
}

}  // namespace

Op scatter_nd_op() {
  return {
      .name = "ScatterNd",
      .inputs = {"indices", "updates"},
      .outputs = {"y"},
      .attrs = {{"shape", AttrKind::shape}},
      .infer_dtypes = infer_dtypes,
      .infer_shapes = infer_shapes,
      .gradient = gradient,
      .kernels = number_kernels(cpu<float>, cpu<double>, cpu<int32_t>, cpu<int64_t>, cpu<uint8_t>),
      .dispatch = 1};
}

Output scatter_nd(Output indices, Output updates, Shape shape, Origin at) {
  return add_node({.op = "ScatterNd", .inputs = {indices, updates}, .attrs = {{"shape", shape}}},
                  at);
}

}  // namespace troupe
