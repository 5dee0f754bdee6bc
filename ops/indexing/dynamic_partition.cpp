// DynamicPartition: output p = the slices of x whose partition is p, in their order.
//   x: [i..., rest...]   partitions: [i...], i32 or i64, each in [0, parts)
//   outputs: `parts` of them, each [count, rest...]
//
// DynamicPartitionGradient: dx = the slices of the parts, back in the order before a dynamic
// partition: slice i is the next slice of dys[partitions[i]].
//   partitions: [i...], i32 or i64, each in [0, number of parts)   x_like: [i..., rest...], only
//   its shape is read   dys: each [count, rest...]   dx: the shape of x_like.
#include <cstring>

#include "ops/gradients.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/indices.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  const int64_t parts = ctx.attr<int64_t>("parts");
  constexpr int64_t kPartsMax = 65536;  // outputs of one node: more is a mistake
  if (parts < 1 || parts > kPartsMax)
    throw ctx.error("makes 1 to ", kPartsMax, " parts, not ", parts);
  return std::vector<DType>(static_cast<size_t>(parts), ctx.dtype(0));
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &partitions = ctx.input(1);
  const int outer = partitions.ndim();
  if (!begins_with(x, partitions) || (outer == 0 && x.ndim() >= Shape::kNdimMax))
    throw ctx.error("wants a partition for each slice along the first dimensions of ", x, ", got ",
                    partitions);
  return std::vector<Shape>(static_cast<size_t>(ctx.attr<int64_t>("parts")),
                            shape_with_rows(-1, sizes_from(x, outer)));
}

// dx: each slice gets the gradient of its copy; a part without a gradient counts as zeros.
std::vector<Output> gradient(const GradientContext& ctx) {
  std::vector<Output> dys;
  for (int i = 0; i < ctx.attr<int64_t>("parts"); ++i)
    dys.push_back(output_gradient_or_zeros(ctx, i, ctx.output(i)));
  return {dynamic_partition_gradient(ctx.input(1), ctx.input(0), dys), Output{}};
}

template <class I>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &x = ctx.input(0), &partitions = ctx.input(1);
  const I* numbers = partitions.data<I>();
  const int64_t parts = ctx.attr<int64_t>("parts"), count = partitions.size();
  check_indices(ctx, numbers, count, parts);
  std::vector<int64_t> sizes(static_cast<size_t>(parts), 0);
  for (int64_t i = 0; i < count; ++i) ++sizes[static_cast<size_t>(numbers[i])];
  const Shape shape = x.shape();
  std::vector<char*> to;
  for (size_t p = 0; p < sizes.size(); ++p) {
    const Shape part = shape_with_rows(sizes[p], sizes_from(shape, partitions.ndim()));
    to.push_back(static_cast<char*>(ctx.output(static_cast<int>(p), part).mutable_raw()));
  }
  if (x.size() == 0) return;
  const auto bytes = static_cast<size_t>(x.byte_size() / count);
  const char* from = static_cast<const char*>(x.raw());
  for (int64_t i = 0; i < count; ++i, from += bytes) {
    char*& y = to[static_cast<size_t>(numbers[i])];
    std::memcpy(y, from, bytes);
    y += bytes;
  }
}

constexpr int kBefore = 2;  // inputs before the parts

std::vector<DType> infer_gradient_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  for (int i = kBefore; i < ctx.input_count(); ++i)
    if (ctx.dtype(i) != ctx.dtype(1))
      throw ctx.error("x_like and dys must have one dtype, got ", ctx.dtype(1), " and ",
                      ctx.dtype(i), "; cast one of them");
  return {ctx.dtype(1)};
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  const Shape &partitions = ctx.input(0), &x = ctx.input(1);
  const int outer = partitions.ndim();
  bool fits = begins_with(x, partitions);
  for (int i = kBefore; fits && i < ctx.input_count(); ++i) {
    const Shape& dy = ctx.input(i);
    fits = dy.ndim() == x.ndim() - outer + 1;
    for (int d = 1; fits && d < dy.ndim(); ++d) fits = may_equal(dy[d], x[outer + d - 1]);
  }
  if (!fits)
    throw ctx.error("the parts are not what partitions ", partitions, " make of ", x,
                    "; pass their gradients, all of them");
  return {x};
}

// Linear in dys. Writing g for the gradient of dx, the gradients of dys are the partition of g.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  std::vector<Output> gradients =
      dynamic_partition(ctx.output_gradient(0), ctx.input(0), ctx.input_count() - kBefore);
  gradients.insert(gradients.begin(), kBefore, Output{});
  return gradients;
}

template <class I>
void cpu_gradient(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& partitions = ctx.input(0);
  const I* numbers = partitions.data<I>();
  const int64_t parts = ctx.input_count() - kBefore, count = partitions.size();
  check_indices(ctx, numbers, count, parts);
  std::vector<int64_t> sizes(static_cast<size_t>(parts), 0);
  for (int64_t i = 0; i < count; ++i) ++sizes[static_cast<size_t>(numbers[i])];
  std::vector<const char*> from;
  for (int p = 0; p < parts; ++p) {
    const Tensor& dy = ctx.input(kBefore + p);
    const int64_t wanted = sizes[static_cast<size_t>(p)];
    if (dy.dim(0) != wanted)
      throw ctx.error("part ", p, " has ", dy.dim(0), " slices, but ", wanted, " of partition ", p,
                      " were taken; pass the gradients of that partition");
    from.push_back(static_cast<const char*>(dy.raw()));
  }
  Tensor& dx = ctx.output(0, ctx.input(1).shape());
  if (dx.size() == 0) return;
  const auto bytes = static_cast<size_t>(dx.byte_size() / count);
  char* to = static_cast<char*>(dx.mutable_raw());
  for (int64_t i = 0; i < count; ++i, to += bytes) {
    const char*& dy = from[static_cast<size_t>(numbers[i])];
    std::memcpy(to, dy, bytes);
    dy += bytes;
  }
}

}  // namespace

Op dynamic_partition_op() {
  return {.name = "DynamicPartition",
          .inputs = {"x", "partitions"},
          .outputs = {"parts..."},
          .attrs = {{"parts", AttrKind::integer}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = index_kernels(cpu<int32_t>, cpu<int64_t>),
          .dispatch = 1,
          .value_shapes = true};
}

std::vector<Output> dynamic_partition(Output x, Output partitions, int64_t parts, Origin at) {
  return all_outputs(add_node(
      {.op = "DynamicPartition", .inputs = {x, partitions}, .attrs = {{"parts", parts}}}, at));
}

Op dynamic_partition_gradient_op() {
  return {.name = "DynamicPartitionGradient",
          .inputs = {"partitions", "x_like", "dys..."},
          .outputs = {"dx"},
          .infer_dtypes = infer_gradient_dtypes,
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = index_kernels(cpu_gradient<int32_t>, cpu_gradient<int64_t>)};
}

Output dynamic_partition_gradient(Output partitions, Output x_like, const std::vector<Output>& dys,
                                  Origin at) {
  std::vector<Output> inputs = {partitions, x_like};
  inputs.insert(inputs.end(), dys.begin(), dys.end());
  return add_node({.op = "DynamicPartitionGradient", .inputs = inputs}, at);
}

}  // namespace troupe
