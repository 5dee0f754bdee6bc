// OneHot: y[i..., j] = 1 if j == indices[i...], otherwise 0.
//   indices: [i...], i32 or i64, each in [0, depth)   y: [i..., depth] of attribute dtype
#include <cstring>

#include "ops/support/indices.hpp"
#include "ops/elementwise/number.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  return {ctx.attr<DType>("dtype")};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const int64_t depth = ctx.attr<int64_t>("depth");
  if (depth < 0) throw ctx.error("wants a depth of at least 0, got ", depth);
  if (ctx.input(0).ndim() >= Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions");
  std::vector<int64_t> y(ctx.input(0).begin(), ctx.input(0).end());
  y.push_back(depth);
  return {Shape(y)};
}

template <class I>
void cpu(KernelContext& ctx) {
  const I* indices = ctx.input(0).data<I>();
  const int64_t count = ctx.input(0).size(), depth = ctx.attr<int64_t>("depth");
  check_indices(ctx, indices, count, depth);
  Tensor& y = ctx.output();
  const int64_t width = size_of(y.dtype());
  char* to = static_cast<char*>(y.mutable_raw());
  std::memset(to, 0, static_cast<size_t>(y.byte_size()));
  for (int64_t i = 0; i < count; ++i)
    set_elements(to + (i * depth + indices[i]) * width, y.dtype(), 1, 1);
}

}  // namespace

Op one_hot_op() {
  return {.name = "OneHot",
          .inputs = {"indices"},
          .outputs = {"y"},
          .attrs = {{"depth", AttrKind::integer}, {"dtype", AttrKind::dtype, DType::f32}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "its input is an integer",
          .kernels = index_kernels(cpu<int32_t>, cpu<int64_t>)};
}

Output one_hot(Output indices, int64_t depth, DType dtype, Origin at) {
  return add_node(
      {.op = "OneHot", .inputs = {indices}, .attrs = {{"depth", depth}, {"dtype", dtype}}}, at);
}

}  // namespace troupe
