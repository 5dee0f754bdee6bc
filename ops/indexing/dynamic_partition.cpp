// DynamicPartition: output p = the slices of x whose partition is p, in their order.
//   x: [i..., rest...]   partitions: [i...], i32 or i64, each in [0, parts)
//   outputs: `parts` of them, each [count, rest...]
#include "ops/gradients.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/indices.hpp"

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
  bool fits = outer <= x.ndim() && (outer > 0 || x.ndim() < Shape::kNdimMax);
  for (int d = 0; fits && d < outer; ++d) fits = may_equal(partitions[d], x[d]);
  if (!fits)
    throw ctx.error("wants a partition for each slice along the first dimensions of ", x, ", got ",
                    partitions);
  std::vector<int64_t> part(x.begin() + outer, x.end());
  part.insert(part.begin(), -1);
  return std::vector<Shape>(static_cast<size_t>(ctx.attr<int64_t>("parts")), Shape(part));
}

// dx: each slice gets the gradient of its copy; a part without a gradient counts as zeros.
std::vector<Output> gradient(const GradientContext& ctx) {
  std::vector<Output> dys;
  for (int i = 0; i < ctx.attr<int64_t>("parts"); ++i) {
    const Output g = ctx.output_gradient(i);
    dys.push_back(g.defined() ? g : zeros_like(ctx.output(i)));
  }
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
  std::vector<int64_t> part(shape.begin() + partitions.ndim(), shape.end());
  part.insert(part.begin(), 0);
  std::vector<char*> to;
  for (int64_t p = 0; p < parts; ++p) {
    part[0] = sizes[static_cast<size_t>(p)];
    to.push_back(static_cast<char*>(ctx.output(static_cast<int>(p), Shape(part)).mutable_raw()));
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

}  // namespace

Op dynamic_partition_op() {
  return {.name = "DynamicPartition",
          .inputs = {"x", "partitions"},
          .outputs = {"parts..."},
          .attrs = {{"parts", AttrKind::integer}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::i32, cpu<int32_t>},
                      {DeviceKind::cpu, DType::i64, cpu<int64_t>}},
          .dispatch = 1,
          .value_shapes = true};
}

std::vector<Output> dynamic_partition(Output x, Output partitions, int64_t parts, Origin at) {
  return all_outputs(add_node(
      {.op = "DynamicPartition", .inputs = {x, partitions}, .attrs = {{"parts", parts}}}, at));
}

}  // namespace troupe
