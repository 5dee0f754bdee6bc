// GatherNd: y[i..., :] = x[indices[i..., 0], ..., indices[i..., k - 1], :], slices of x given by k
// coordinates each.
//   x: any dtype and shape   indices: [i..., k], i32 or i64, each within its dimension of x
//   y: [i..., sizes of x from dimension k on]
//   coordinates: k; -1: the last size of indices, which must be known while building.
#include "ops/support/rows.hpp"
#include "ops/indexing/scatter_nd.hpp"

namespace troupe {
namespace {

template <class Context>
int coordinates(const Context& ctx, const Shape& x, const Shape& indices) {
  const int last = indices.ndim() - 1;
  const int64_t k = ctx.template attr<int64_t>("coordinates");
  if (last < 0)
    throw ctx.error(
        "wants indices [..., k] of k coordinates each, got a scalar; reshape it to [1]");
  if (k < -1 || !may_equal(k, indices[last]))
    throw ctx.error("coordinates are ", k, ", but indices ", indices, " have ", indices[last],
                    " each; leave the attribute out");
  const int64_t known = k < 0 ? indices[last] : k;
  if (known < 0)
    throw ctx.error("the last size of indices ", indices,
                    " is not known; say how many coordinates there are");
  if (known > x.ndim())
    throw ctx.error("indices ", indices, " have ", known, " coordinates, but ", x, " has ",
                    x.ndim(), " dimensions");
  return static_cast<int>(known);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &indices = ctx.input(1);
  const int k = coordinates(ctx, x, indices);
  if (indices.ndim() - 1 + x.ndim() - k > Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions: slices of ", x,
                    " by ", indices);
  return {joined_sizes(indices.dims().first(indices.dims().size() - 1), sizes_from(x, k))};
}

// Writing dy for dL/dy:  dx = zeros, plus each slice of dy at the slice that it was copied from.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), indices = ctx.input(1), dy = ctx.output_gradient(0);
  if (!is_floating(x.dtype())) return {Output{}, Output{}};
  if (x.shape().is_known()) return {scatter_nd(indices, dy, x.shape()), Output{}};
  return {tensor_scatter_add(zeros_like(x), indices, dy), Output{}};
}

void cpu(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &indices = ctx.input(1);
  const int k = coordinates(ctx, x.shape(), indices.shape());
  const Slices slices = named_slices(ctx, indices, x.shape(), k);
  Tensor& y = ctx.output();
  if (y.size() == 0) return;
  const int64_t* numbers = slices.data();
  copy_rows(
      slices.count, slices.width * size_of(x.dtype()), x.raw(), y.mutable_raw(),
      [=](int64_t i) { return numbers[i]; }, same_row);
}

}  // namespace

Op gather_nd_op() {
  return {.name = "GatherNd",
          .inputs = {"x", "indices"},
          .outputs = {"y"},
          .attrs = {{"coordinates", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_dtype_with_indices,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = index_kernels(cpu, cpu),
          .dispatch = 1};
}

Output gather_nd(Output x, Output indices, int64_t coordinates, Origin at) {
  return add_node(
      {.op = "GatherNd", .inputs = {x, indices}, .attrs = {{"coordinates", coordinates}}}, at);
}

}  // namespace troupe
