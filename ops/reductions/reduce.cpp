// The shapes and views of reductions, documented in ops/reductions/reduce.hpp.
#include "devices/kernel_call.hpp"
#include "ops/reductions/reduce.hpp"

namespace troupe {

Shape reduced_shape(const Shape& x, uint32_t axes, bool keep_dims) {
  std::vector<int64_t> sizes;
  for (int d = 0; d < x.ndim(); ++d) {
    if (!(axes >> d & 1))
      sizes.push_back(x[d]);
    else if (keep_dims)
      sizes.push_back(1);
  }
  return Shape(sizes);
}

std::vector<AttrSpec> reduce_attrs() {
  return {{"axes", AttrKind::integers, std::vector<int64_t>{}},
          {"keep_dims", AttrKind::boolean, false}};
}

Attrs to_attrs(const ReduceOptions& options) {
  return {{"axes", options.axes}, {"keep_dims", options.keep_dims}};
}

ReduceOptions reduce_options(const Node& node) {
  return {node.attr<std::vector<int64_t>>("axes"), node.attr<bool>("keep_dims")};
}

std::vector<Shape> infer_reduced(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape& x = ctx.input(0);
  return {reduced_shape(x, reduced_axes(ctx, x.ndim()), ctx.attr<bool>("keep_dims"))};
}

namespace {

// Writes the whole input into `to`, if it is produced part by part.
void take_whole(KernelContext& ctx, Tensor& to) {
  const int64_t size = size_of(to.dtype());
  char* const bytes = static_cast<char*>(to.mutable_raw());
  in_parts(ctx, to.size(), [&](int64_t begin, int64_t n) {
    KernelCall::of(ctx).take<char>(begin, n, 1, [=](const char* x, int64_t at, int64_t count) {
      std::memcpy(bytes + at * size, x, static_cast<size_t>(count * size));
    });
  });
}

}  // namespace

ReduceView reduce_view(KernelContext& ctx, const Tensor& x, uint32_t axes) {
  const Shape shape = x.shape();
  ReduceView view;
  if (KernelCall::of(ctx).input_is_whole()) view.x = x.raw();
  if (shape.size() == 0) {  // other sizes may be too large to multiply
    view.outer = reduced_shape(shape, axes, false).size();
    view.reduced = 0;
    return view;
  }
  // Runs of kept and of reduced dimensions: kept, reduced, kept needs no copy.
  int changes = 0;
  bool reducing = false;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (shape[d] == 1) continue;
    const bool reduces = axes >> d & 1;
    changes += reduces != reducing;
    reducing = reduces;
    (reduces ? view.reduced : changes == 0 ? view.outer : view.inner) *= shape[d];
  }
  if (changes <= 2) return view;
  const Strides strides = dense_strides(shape);
  Shape order = shape;
  Strides walked = {};
  int to = 0;
  for (const uint32_t reduces : {0u, 1u})
    for (int d = 0; d < shape.ndim(); ++d) {
      if ((axes >> d & 1) != reduces) continue;
      walked[static_cast<size_t>(to)] = strides[static_cast<size_t>(d)];
      order.set(to++, shape[d]);
    }
  view.outer *= std::exchange(view.inner, 1);
  view.copy = ctx.scratch(x.dtype(), order);
  Tensor whole = x;
  if (!KernelCall::of(ctx).input_is_whole()) {  // no error is possible once elements are taken
    ctx.output();
    view.sums = ctx.scratch(x.dtype(), {view.outer, ceil_div(view.reduced, kReducedPerJob)});
    whole = ctx.scratch(x.dtype(), shape);
    take_whole(ctx, whole);
  }
  copy_strided(ctx, size_of(x.dtype()), order, whole.raw(), walked, view.copy.mutable_raw(),
               dense_strides(order));
  view.x = view.copy.raw();
  return view;
}

}  // namespace troupe
