// Bincount: y[v] = the number of elements of x equal to v. For sums of weights, use segment sums
// (unsorted_segment_sum).
//   x: any shape, i32 or i64, each in [0, length)   y: [length], i64
// A length of -1 means the greatest element plus 1.
#include <algorithm>
#include <limits>

#include "ops/support/indices.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const int64_t length = ctx.attr<int64_t>("length");
  if (length < -1)
    throw ctx.error("wants a length of at least 0, or -1 for as many as there are, got ", length);
  return {Shape{length}};
}

template <class T>
void cpu(KernelContext& ctx) {
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  int64_t length = ctx.attr<int64_t>("length");
  if (length < 0) {
    const int64_t most = n > 0 ? int64_t{*std::max_element(x, x + n)} : -1;
    length = std::clamp<int64_t>(most, -1, std::numeric_limits<int64_t>::max() - 1) + 1;
  }
  check_indices(ctx, x, n, length);
  int64_t* y = ctx.output(0, Shape{length}).template mutable_data<int64_t>();
  std::fill_n(y, length, int64_t{0});
  for (int64_t i = 0; i < n; ++i) ++y[x[i]];
}

}  // namespace

Op bincount_op() {
  return {.name = "Bincount",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"length", AttrKind::integer, int64_t{-1}}},
          .infer_dtypes = infer_i64,
          .infer_shapes = infer_shapes,
          .no_gradient = "its input is an integer",
          .kernels = index_kernels(cpu<int32_t>, cpu<int64_t>),
          .value_shapes = true};
}

Output bincount(Output x, int64_t length, Origin at) {
  return add_node({.op = "Bincount", .inputs = {x}, .attrs = {{"length", length}}}, at);
}

}  // namespace troupe
