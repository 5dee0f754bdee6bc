// ReverseSequence: y = x with the first lengths[b] slices along the sequence axis in reverse order,
// for each b along the batch axis; the other slices stay.
//   x: any shape of at least two dimensions   lengths: [batch], i32 or i64, each in [0, sequence]
#include "ops/support/axes.hpp"
#include "ops/support/indices.hpp"
#include "ops/support/rows.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

struct SequenceAxes {
  int sequence, batch;
};

template <class Context>
SequenceAxes checked_axes_of(const Context& ctx, const Shape& x, const Shape& lengths) {
  const SequenceAxes axes{checked_axis(ctx, ctx.template attr<int64_t>("sequence_axis"), x.ndim()),
                          checked_axis(ctx, ctx.template attr<int64_t>("batch_axis"), x.ndim())};
  if (axes.sequence == axes.batch)
    throw ctx.error("wants two axes, got ", axes.sequence,
                    " for both; the sequence axis is another one than the batch axis");
  if (lengths.ndim() != 1 || !may_equal(lengths[0], x[axes.batch]))
    throw ctx.error("wants a length for each of the ", x[axes.batch], " sequences along axis ",
                    axes.batch, " of ", x, ", got ", lengths);
  return axes;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  checked_axes_of(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(0)};
}

// Writing dy for dL/dy:  dx = dy reversed again.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {reverse_sequence(ctx.output_gradient(0), ctx.input(1), ctx.attr<int64_t>("sequence_axis"),
                           ctx.attr<int64_t>("batch_axis")),
          Output{}};
}

template <class I>
void check_lengths(const KernelContext& ctx, const I* lengths, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i)
    if (lengths[i] < 0 || lengths[i] > size)
      throw ctx.error("length ", lengths[i], " (number ", i, " of ", count, ") is not in [0, ",
                      size, "], the size of the sequence axis");
}

// x as [outer, first axis, between, second axis, row].
template <class I>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape();
  const SequenceAxes axes = checked_axes_of(ctx, shape, ctx.input(1).shape());
  const I* lengths = ctx.input(1).data<I>();
  check_lengths(ctx, lengths, shape[axes.batch], shape[axes.sequence]);
  char* y = static_cast<char*>(ctx.output(0, shape).mutable_raw());
  if (x.size() == 0) return;
  const int first = std::min(axes.sequence, axes.batch),
            second = std::max(axes.sequence, axes.batch);
  const int64_t outer = size_between(shape, 0, first), m = shape[first], n = shape[second];
  const int64_t between = size_between(shape, first + 1, second);
  const int64_t bytes = size_between(shape, second + 1, shape.ndim()) * size_of(x.dtype());
  const bool batch_first = axes.batch == first;
  const auto source = [](int64_t i, int64_t length) { return i < length ? length - 1 - i : i; };
  int64_t line = 0;  // index of a line of n rows
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t k = 0; k < between; ++k, ++line) {
        const auto from = [&](int64_t j) {
          if (batch_first) return line * n + source(j, lengths[i]);
          return (line + (source(i, lengths[j]) - i) * between) * n + j;
        };
        const auto to = [&](int64_t j) { return line * n + j; };
        copy_rows(n, bytes, x.raw(), y, from, to);
      }
}

}  // namespace

Op reverse_sequence_op() {
  return {.name = "ReverseSequence",
          .inputs = {"x", "lengths"},
          .outputs = {"y"},
          .attrs = {{"sequence_axis", AttrKind::integer},
                    {"batch_axis", AttrKind::integer, int64_t{0}}},
          .infer_dtypes = infer_dtype_with_indices,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = index_kernels(cpu<int32_t>, cpu<int64_t>),
          .dispatch = 1};
}

Output reverse_sequence(Output x, Output lengths, int64_t sequence_axis, int64_t batch_axis,
                        Origin at) {
  return add_node({.op = "ReverseSequence",
                   .inputs = {x, lengths},
                   .attrs = {{"sequence_axis", sequence_axis}, {"batch_axis", batch_axis}}},
                  at);
}

}  // namespace troupe
