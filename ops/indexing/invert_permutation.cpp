// InvertPermutation: y[x[i]] = i.
//   x: [n], i32 or i64, each number of [0, n) once   y: [n]
#include "ops/support/indices.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  if (ctx.input(0).ndim() != 1) throw ctx.error("wants a vector, got ", ctx.input(0));
  return {ctx.input(0)};
}

template <class I>
void cpu(KernelContext& ctx) {
  const I* x = ctx.input(0).data<I>();
  const int64_t n = ctx.input(0).size();
  check_indices(ctx, x, n, n);
  Tensor numbers = ctx.scratch(dtype_of<I>, Shape{n});
  I* inverse = numbers.mutable_data<I>();
  std::fill_n(inverse, n, I{-1});
  for (int64_t i = 0; i < n; ++i) {
    I& replica = inverse[x[i]];
    if (replica >= 0)
      throw ctx.error("index ", x[i], " is there twice, as numbers ", replica, " and ", i,
                      "; a permutation has each once");
    replica = static_cast<I>(i);
  }
  std::copy_n(inverse, n, ctx.output().template mutable_data<I>());
}

}  // namespace

Op invert_permutation_op() {
  return {.name = "InvertPermutation",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .no_gradient = "its input is an integer",
          .kernels = index_kernels(cpu<int32_t>, cpu<int64_t>)};
}

Output invert_permutation(Output x, Origin at) {
  return add_node({.op = "InvertPermutation", .inputs = {x}}, at);
}

}  // namespace troupe
