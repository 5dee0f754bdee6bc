// Broadcasting: the shape rules and the walks of ops/support/broadcast.hpp.
#include "ops/support/broadcast.hpp"

#include <algorithm>

#include "graph/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// Size of dimension d when the shape is aligned at the end of `ndim` dimensions.
int64_t aligned(const Shape& shape, int ndim, int d) {
  const int own = d - (ndim - shape.ndim());
  return own < 0 ? 1 : shape[own];
}

template <class Context>
Error mismatch(const Context& ctx, const Shape& a, const Shape& b) {
  return ctx.error("shapes do not broadcast: ", a, " and ", b,
                   "; from the last dimension on, sizes must agree or one of them be 1");
}

BroadcastWalk walk_shapes(std::initializer_list<Shape> inputs, const Shape& shape) {
  BroadcastWalk walk;
  walk.shape = shape;
  if (shape.size() == 0) {
    walk.sizes[0] = 0;
    return walk;
  }
  int64_t strides[BroadcastWalk::kInputsMax][Shape::kNdimMax] = {};
  int i = 0;
  for (const Shape& input : inputs) {
    int64_t stride = 1;
    for (int d = shape.ndim() - 1; d >= 0; --d) {
      const int64_t size = aligned(input, shape.ndim(), d);
      strides[i][d] = size == 1 ? 0 : stride;
      stride *= size;
    }
    ++i;
  }
  walk.ndim = 0;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (shape[d] == 1) continue;
    const int last = walk.ndim - 1;
    bool merges = last >= 0;
    for (int k = 0; k < i && merges; ++k)
      merges = walk.strides[k][last] == strides[k][d] * shape[d];
    const int to = merges ? last : walk.ndim++;
    walk.sizes[to] = (merges ? walk.sizes[to] : 1) * shape[d];
    for (int k = 0; k < i; ++k) walk.strides[k][to] = strides[k][d];
  }
  if (walk.ndim == 0) walk.ndim = walk.sizes[0] = 1;
  return walk;
}

template <class T>
void repeat(const BroadcastWalk& walk, const void* from, void* to) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  const bool once = walk.strides[0][walk.ndim - 1] == 0;
  for_each_row<1>(walk, [&](int64_t begin, const int64_t* at, int64_t n) {
    if (once)
      std::fill_n(y + begin, n, x[at[0]]);
    else
      std::copy_n(x + at[0], n, y + begin);
  });
}

}  // namespace

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.ndim() >= b.ndim() ? a : b;
  Shape shape = longer;
  for (int d = 0; d < shape.ndim(); ++d) {
    const int64_t m = aligned(a, shape.ndim(), d), n = aligned(b, shape.ndim(), d);
    if (m > 1 && n > 1 && m != n) return {};
    if ((m == 0 && n > 1) || (n == 0 && m > 1)) return {};
    // An unknown size equals the other side's size, unless that size is 1.
    shape.set(d, m == 1 || (m == -1 && n != 1) ? n : m);
  }
  return shape;
}

Shape broadcast_inputs(const InferContext& ctx) {
  Shape shape = ctx.input(0);
  for (int i = 1; i < ctx.input_count(); ++i) {
    const auto both = broadcast(shape, ctx.input(i));
    if (!both) throw mismatch(ctx, shape, ctx.input(i));
    shape = *both;
  }
  return shape;
}

Output undo_broadcast(Output gradient, Output like) {
  if (gradient.shape() == like.shape() && like.shape().is_known()) return gradient;
  return sum_to_like(gradient, like);
}

BroadcastWalk walk_inputs(const KernelContext& ctx) {
  Shape shapes[BroadcastWalk::kInputsMax];
  Shape shape;
  for (int i = 0; i < ctx.input_count(); ++i) {
    shapes[i] = ctx.input(i).shape();
    const auto both = broadcast(shape, shapes[i]);
    if (!both) throw mismatch(ctx, shape, shapes[i]);
    shape = *both;
  }
  if (ctx.input_count() == 2) return walk_shapes({shapes[0], shapes[1]}, shape);
  return walk_shapes({shapes[0], shapes[1], shapes[2]}, shape);
}

void run_repeat(KernelContext& ctx, const Shape& shape) {
  const Tensor& x = ctx.input(0);
  const Shape own = x.shape();
  if (own == shape) return ctx.set_output(0, x);
  if (broadcast(own, shape) != shape) throw not_repeatable(ctx, own, shape);
  const BroadcastWalk walk = walk_to(own, shape);
  void* y = ctx.output(0, shape).mutable_raw();
  const int64_t element_size = size_of(x.dtype());
  if (element_size == 1) return repeat<uint8_t>(walk, x.raw(), y);
  if (element_size == 2) return repeat<uint16_t>(walk, x.raw(), y);
  if (element_size == 4) return repeat<uint32_t>(walk, x.raw(), y);
  repeat<uint64_t>(walk, x.raw(), y);
}

void repeat_elements(const ElementRun& run) {
  const auto repeat_as = [&]<class T>(T) {
    const T* x = static_cast<const T*>(run.inputs[0]);
    T* y = static_cast<T*>(run.output);
    if (run.once[0])
      std::fill_n(y, run.n, *x);
    else if (y != x)
      std::copy_n(x, run.n, y);
  };
  const int64_t element_size = size_of(run.node->outputs[0].dtype);
  if (element_size == 1) return repeat_as(uint8_t{});
  if (element_size == 2) return repeat_as(uint16_t{});
  if (element_size == 4) return repeat_as(uint32_t{});
  repeat_as(uint64_t{});
}

BroadcastWalk walk_to(const Shape& x, const Shape& shape) { return walk_shapes({x}, shape); }

}  // namespace troupe
