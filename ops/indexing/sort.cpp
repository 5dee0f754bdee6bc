// Sort: y = x with the elements of each line along `axis` in ascending order, or descending if
// `descending`. Stable: equal elements (0 and -0) keep their order. NaN counts as greater than all
// numbers.
//   x, y: any shape but a scalar.
//
// Argsort: y = the positions of x's elements in sorted order along `axis`. Stable: equal elements
// keep their order. NaN counts as greater than all numbers.
//   x: any shape but a scalar   y: the shape of x, i64
#include <algorithm>
#include <vector>

#include "ops/gradients.hpp"
#include "ops/support/narrow.hpp"
#include "ops/support/order.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(0).ndim());
  return {ctx.input(0)};
}

// Writing dy for dL/dy:  dx = dy, each element back at its original position.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0);
  const int64_t axis = ctx.attr<int64_t>("axis");
  const Output from = argsort(x, {.axis = axis, .descending = ctx.attr<bool>("descending")});
  return {take_along_gradient(ctx.output_gradient(0), from, x, axis)};
}

// Descending order is ascending order read backwards; a line reversed before sorting as well keeps
// the order of equal elements.
template <class T>
void sort_line(T* line, int64_t n, bool descending) {
  if (descending) std::reverse(line, line + n);
  if constexpr (std::is_floating_point_v<T>)
    std::stable_sort(line, line + n, [](T a, T b) { return rises(a, b); });
  else
    std::sort(line, line + n);
  if (descending) std::reverse(line, line + n);
}

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape();
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), shape.ndim());
  const bool descending = ctx.attr<bool>("descending");
  const T* from = x.data<T>();
  const int64_t size = x.size();
  T* y = ctx.output_in_place().template mutable_data<T>();
  if (size == 0) return;
  const Lines lines(shape, axis);
  if (lines.inner == 1) {
    if (y != from) std::copy_n(from, size, y);
    for (T* line = y; line < y + size; line += lines.n) sort_line(line, lines.n, descending);
    return;
  }
  std::vector<T> line(static_cast<size_t>(lines.n));
  for (int64_t o = 0; o < lines.outer; ++o)
    for (int64_t i = 0; i < lines.inner; ++i) {
      const int64_t first = o * lines.n * lines.inner + i;
      for (int64_t j = 0; j < lines.n; ++j)
        line[static_cast<size_t>(j)] = from[first + j * lines.inner];
      sort_line(line.data(), lines.n, descending);
      for (int64_t j = 0; j < lines.n; ++j)
        y[first + j * lines.inner] = line[static_cast<size_t>(j)];
    }
}

std::vector<Shape> XX(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(0).ndim());
  return {ctx.input(0)};
}

// Descending order is ascending order read backwards; positions that count down, too, keep the
// order of equal elements.
template <class T>
void cpu_positions(KernelContext& ctx) {
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

Op sort_op() {
  return {
      .name = "Sort",
      .inputs = {"x"},
      .outputs = {"y"},
      .attrs = {{"axis", AttrKind::integer, int64_t{-1}}, {"descending", AttrKind::boolean, false}},
      .infer_shapes = infer_shapes,
      .gradient = gradient,
      .kernels = with_i8(
          number_kernels(cpu<float>, cpu<double>, cpu<int32_t>, cpu<int64_t>, cpu<uint8_t>)),
      .in_place = true};
}

Output sort(Output x, SortOptions options, Origin at) {
  return add_node({.op = "Sort",
                   .inputs = {x},
                   .attrs = {{"axis", options.axis}, {"descending", options.descending}}},
                  at);
}

Op argsort_op() {
  return {
      .name = "Argsort",
      .inputs = {"x"},
      .outputs = {"y"},
      .attrs = {{"axis", AttrKind::integer, int64_t{-1}}, {"descending", AttrKind::boolean, false}},
      .infer_dtypes = infer_i64,
      .infer_shapes = XX,
      .no_gradient = "an index is constant wherever it has a slope",
      .kernels = with_i8(number_kernels(cpu_positions<float>, cpu_positions<double>,
                                        cpu_positions<int32_t>, cpu_positions<int64_t>,
                                        cpu_positions<uint8_t>))};
}

Output argsort(Output x, SortOptions options, Origin at) {
  return add_node({.op = "Argsort",
                   .inputs = {x},
                   .attrs = {{"axis", options.axis}, {"descending", options.descending}}},
                  at);
}

}  // namespace troupe
