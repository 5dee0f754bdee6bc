// Shared by gather_nd, scatter_nd and the tensor_scatter functions. indices [i..., k] name slices
// of x by k coordinates each: x[indices[i..., 0], ..., indices[i..., k - 1], ...].
#pragma once

#include "ops/support/elementwise.hpp"
#include "ops/support/indices.hpp"

namespace troupe {

// The number of coordinates, from the numbers of dimensions.
inline int coordinates_of(const Shape& x, const Shape& indices, const Shape& updates) {
  return indices.ndim() - 1 + x.ndim() - updates.ndim();
}

// For infer_shapes. Throws: Error if `updates` do not have the shape of slices of x at `indices`.
inline void check_updates(const InferContext& ctx, const Shape& x, const Shape& indices,
                          const Shape& updates) {
  const int k = coordinates_of(x, indices, updates), outer = indices.ndim() - 1;
  bool fits = outer >= 0 && k >= 0 && k <= x.ndim() && may_equal(indices[outer], k);
  for (int d = 0; fits && d < updates.ndim(); ++d)
    fits = may_equal(updates[d], d < outer ? indices[d] : x[d - outer + k]);
  if (!fits)
    throw ctx.error("updates ", updates, " are not the slices of ", x, " that indices ", indices,
                    " name; with k as the last size of indices, updates have the sizes of indices "
                    "without that one, then those of x from dimension k on");
}

// The slices' numbers among those of x, [count] of i64, and the size of a slice.
struct Slices {
  Tensor numbers;
  int64_t count = 0;
  int64_t width = 0;  // elements of each slice
  const int64_t* data() const { return numbers.data<int64_t>(); }
};

// Throws: Error with the first index that is not within x.
template <class I>
void number_slices(const KernelContext& ctx, const I* indices, const Shape& x, int k,
                   Slices& slices) {
  int64_t* numbers = slices.numbers.mutable_data<int64_t>();
  for (int64_t i = 0; i < slices.count; ++i, indices += k) {
    uint64_t number = 0;  // wraps around beside a size of 0, and is not used then
    for (int c = 0; c < k; ++c) {
      if (indices[c] < 0 || indices[c] >= x[c])
        throw ctx.error("coordinate ", c, " of index number ", i, " of ", slices.count, " is ",
                        indices[c], ", which is not in [0, ", x[c], "); indices count from 0");
      number = number * static_cast<uint64_t>(x[c]) + static_cast<uint64_t>(indices[c]);
    }
    numbers[i] = static_cast<int64_t>(number);
  }
}

// Requires: the shapes fit.
inline Slices named_slices(KernelContext& ctx, const Tensor& indices, const Shape& x, int k) {
  Slices slices;
  const Shape shape = indices.shape();
  slices.count = Shape(shape.dims().first(static_cast<size_t>(shape.ndim() - 1))).size();
  uint64_t width = 1;
  for (int d = k; d < x.ndim(); ++d) width *= static_cast<uint64_t>(x[d]);
  slices.width = static_cast<int64_t>(width);
  slices.numbers = ctx.scratch(DType::i64, Shape{slices.count});
  with_indices(indices, [&](const auto* from) { number_slices(ctx, from, x, k, slices); });
  return slices;
}

// y[slice] = F::apply(y[slice], update), one after the other in the order of the indices.
template <class F, class T>
void scatter(const Slices& slices, const T* updates, T* y) {
  constexpr int64_t kLong = 32;  // elements from which a call is worthwhile
  const int64_t* numbers = slices.data();
  const int64_t width = slices.width;
  for (int64_t i = 0; i < slices.count; ++i, updates += width) {
    T* to = y + numbers[i] * width;
    if (width >= kLong)
      zip_elements<F, 1, 1>(to, updates, to, width);
    else
      for (int64_t j = 0; j < width; ++j) to[j] = F::apply(to[j], updates[j]);
  }
}

// ---- ops of the form y = x, with some slices replaced by F::apply(slice, update) ----

inline std::vector<Shape> infer_tensor_scatter(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  check_updates(ctx, ctx.input(0), ctx.input(1), ctx.input(2));
  return {ctx.input(0)};
}

template <class F, class T>
void run_tensor_scatter(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &x = ctx.input(0), &indices = ctx.input(1), &updates = ctx.input(2);
  const Shape shape = x.shape();
  const Slices slices =
      named_slices(ctx, indices, shape, coordinates_of(shape, indices.shape(), updates.shape()));
  const T *from = x.data<T>(), *update = updates.data<T>();
  const int64_t n = x.size();
  T* y = ctx.output_in_place().template mutable_data<T>();
  if (n == 0) return;
  if (y != from) std::copy_n(from, n, y);
  scatter<F>(slices, update, y);
}

template <class F, class... Ts>
Op tensor_scatter_op(const char* name, std::vector<Output> (*gradient)(const GradientContext&)) {
  return {.name = name,
          .inputs = {"x", "indices", "updates"},
          .outputs = {"y"},
          .infer_dtypes = infer_dtype_around_indices,
          .infer_shapes = infer_tensor_scatter,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, dtype_of<Ts>, run_tensor_scatter<F, Ts>}...},
          .in_place = true};
}

// The slices of dy at the indices of this node's updates.
inline Output gradient_of_updates(const GradientContext& ctx, Output dy) {
  const int k = coordinates_of(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(2).shape());
  return gather_nd(dy, ctx.input(1), k);
}

}  // namespace troupe
