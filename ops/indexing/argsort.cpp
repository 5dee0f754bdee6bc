// Argsort: y = the positions of x's elements in sorted order along `axis`. Stable: equal elements
// keep their order. NaN counts as greater than all numbers.
//   x: any shape but a scalar   y: the shape of x, i64
#include <algorithm>
#include <vector>

#include "ops/support/narrow.hpp"
#include "ops/support/order.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext&) { return {DType::i64}; }

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(0).ndim());
  return {ctx.input(0)};
}

// Descending order is ascending order read backwards; positions that count down, too, keep the
// order of equal elements.
template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), x.ndim());
  const bool descending = ctx.attr<bool>("descending");
  const T* from = x.data<T>();
  int64_t* y = ctx.output().mutable_data<int64_t>();
  if (x.size() == 0) return;
  const Lines lines(x.shape(), axis);
  std::vector<Placed<T>> line(static_cast<size_t>(lines.n));
  for (int64_t o = 0; o < lines.outer; ++o)
    for (int64_t i = 0; i < lines.inner; ++i) {
      const int64_t first = o * lines.n * lines.inner + i;
      for (int64_t j = 0; j < lines.n; ++j)
        line[static_cast<size_t>(j)] = {from[first + j * lines.inner], descending ? -j : j};
      std::sort(line.begin(), line.end());
      for (int64_t j = 0; j < lines.n; ++j) {
        const int64_t at = line[static_cast<size_t>(descending ? lines.n - 1 - j : j)].at;
        y[first + j * lines.inner] = descending ? -at : at;
      }
    }
}

}  // namespace

Op argsort_op() {
  return {
      .name = "Argsort",
      .inputs = {"x"},
      .outputs = {"y"},
      .attrs = {{"axis", AttrKind::integer, int64_t{-1}}, {"descending", AttrKind::boolean, false}},
      .infer_dtypes = infer_dtypes,
      .infer_shapes = infer_shapes,
      .no_gradient = "an index is constant wherever it has a slope",
      .kernels = with_i8({{DeviceKind::cpu, DType::f32, cpu<float>},
                          {DeviceKind::cpu, DType::f64, cpu<double>},
                          {DeviceKind::cpu, DType::i32, cpu<int32_t>},
                          {DeviceKind::cpu, DType::i64, cpu<int64_t>},
                          {DeviceKind::cpu, DType::u8, cpu<uint8_t>}})};
}

Output argsort(Output x, SortOptions options, Origin at) {
  return add_node({.op = "Argsort",
                   .inputs = {x},
                   .attrs = {{"axis", options.axis}, {"descending", options.descending}}},
                  at);
}

}  // namespace troupe
