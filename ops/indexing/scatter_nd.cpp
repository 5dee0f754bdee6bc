// gather_nd, scatter_nd and the tensor_scatter functions: indices [i..., k] name slices of x by k
// coordinates each: x[indices[i..., 0], ..., indices[i..., k - 1], ...].
//
// GatherNd: y[i..., :] = x[indices[i..., 0], ..., indices[i..., k - 1], :], slices of x given by k
// coordinates each.
//   x: any dtype and shape   indices: [i..., k], i32 or i64, each within its dimension of x
//   y: [i..., sizes of x from dimension k on]
//   coordinates: k; -1: the last size of indices, which must be known while building.
//
// ScatterNd: y = zeros, then y[indices[i..., 0], ..., indices[i..., k - 1], :] += updates[i..., :],
// in the order of the indices.
//   indices: [i..., k], i32 or i64, each within its dimension of `shape`
//   updates: [i..., sizes of `shape` from dimension k on]   y: `shape`
//
// Scatters into a tensor: y = x, then each slice y[indices[i..., 0], ..., indices[i..., k - 1], :]
// is joined with updates[i..., :], in the order of the indices.
//   x, y: any shape   indices: [i..., k], i32 or i64, each within its dimension of x
//   updates: [i..., sizes of x from dimension k on]
//
// TensorScatterUpdateGradient: dupdates[i..., :] = dy[indices[i..., 0], ..., indices[i..., k - 1],
// :], but 0 if a later index is equal, because its update replaced this one.
//   dy: any shape   indices: [i..., k], i32 or i64, each within its dimension of dy
//   updates_like: only its shape is read   dupdates: the shape of updates_like.
#include <cstring>

#include "ops/gradients.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/indices.hpp"
#include "ops/support/rows.hpp"

namespace troupe {
namespace {

// The number of coordinates, from the numbers of dimensions.
int coordinates_of(const Shape& x, const Shape& indices, const Shape& updates) {
  return indices.ndim() - 1 + x.ndim() - updates.ndim();
}

// For infer_shapes. Throws: Error if `updates` do not have the shape of slices of x at `indices`.
void check_updates(const InferContext& ctx, const Shape& x, const Shape& indices,
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
Slices named_slices(KernelContext& ctx, const Tensor& indices, const Shape& x, int k) {
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

std::vector<Shape> infer_tensor_scatter(const InferContext& ctx) {
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
Output gradient_of_updates(const GradientContext& ctx, Output dy) {
  const int k = coordinates_of(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(2).shape());
  return gather_nd(dy, ctx.input(1), k);
}

template <class Context>
int coordinates(const Context& ctx, const Shape& x, const Shape& indices) {
  const int last = indices.ndim() - 1;
  const int64_t k = ctx.template attr<int64_t>("coordinates");
  if (last < 0)
    throw ctx.error(
        "wants indices [..., k] of k coordinates each, got a scalar; reshape it to [1]");
  if (k < -1 || !may_equal(k, indices[last]))
    throw ctx.error("coordinates are ", k, ", but indices ", indices, " have ", indices[last],
                    " each; leave the attribute out");
  const int64_t known = k < 0 ? indices[last] : k;
  if (known < 0)
    throw ctx.error("the last size of indices ", indices,
                    " is not known; say how many coordinates there are");
  if (known > x.ndim())
    throw ctx.error("indices ", indices, " have ", known, " coordinates, but ", x, " has ",
                    x.ndim(), " dimensions");
  return static_cast<int>(known);
}

std::vector<Shape> infer_gathered(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &indices = ctx.input(1);
  const int k = coordinates(ctx, x, indices);
  if (indices.ndim() - 1 + x.ndim() - k > Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions: slices of ", x,
                    " by ", indices);
  return {joined_sizes(indices.dims().first(indices.dims().size() - 1), sizes_from(x, k))};
}

// Writing dy for dL/dy:  dx = zeros, plus each slice of dy at the slice that it was copied from.
std::vector<Output> gradient_of_gather(const GradientContext& ctx) {
  const Output x = ctx.input(0), indices = ctx.input(1), dy = ctx.output_gradient(0);
  if (!is_floating(x.dtype())) return {Output{}, Output{}};
  if (x.shape().is_known()) return {scatter_nd(indices, dy, x.shape()), Output{}};
  return {tensor_scatter_add(zeros_like(x), indices, dy), Output{}};
}

void gather_slices(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &indices = ctx.input(1);
  const int k = coordinates(ctx, x.shape(), indices.shape());
  const Slices slices = named_slices(ctx, indices, x.shape(), k);
  Tensor& y = ctx.output();
  if (y.size() == 0) return;
  const int64_t* numbers = slices.data();
  copy_rows(
      slices.count, slices.width * size_of(x.dtype()), x.raw(), y.mutable_raw(),
      [=](int64_t i) { return numbers[i]; }, same_row);
}

std::vector<DType> infer_scatter_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  return {ctx.dtype(1)};
}

std::vector<Shape> infer_scattered(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(1));
  const Shape& shape = ctx.attr<Shape>("shape");
  if (!shape.is_known())
    throw ctx.error("wants a shape without -1, got ", shape,
                    "; for the shape of another value, use tensor_scatter_add with zeros like it");
  check_updates(ctx, shape, ctx.input(0), ctx.input(1));
  return {shape};
}

// Writing dy for dL/dy:  dupdates = the slices of dy at the indices.
std::vector<Output> gradient_of_scatter(const GradientContext& ctx) {
  const Output indices = ctx.input(0), updates = ctx.input(1);
  const int k = coordinates_of(ctx.attr<Shape>("shape"), indices.shape(), updates.shape());
  return {Output{}, gather_nd(ctx.output_gradient(0), indices, k)};
}

template <class T>
void scatter_slices(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &indices = ctx.input(0), &updates = ctx.input(1);
  const Shape& shape = ctx.attr<Shape>("shape");
  const Slices slices =
      named_slices(ctx, indices, shape, coordinates_of(shape, indices.shape(), updates.shape()));
  Tensor& output = ctx.output();
  if (output.size() == 0) return;
  T* y = output.mutable_data<T>();
  std::fill_n(y, output.size(), T{0});
  scatter<Add>(slices, updates.data<T>(), y);
}

struct Replace {
  template <class T>
  static T apply(T, T update) {
    return update;
  }
};

// Writing dy for dL/dy:  dx = dy;  dupdates = the slices of dy at the indices.
std::vector<Output> add_gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0);
  return {dy, Output{}, gradient_of_updates(ctx, dy)};
}

// dx = dy;  dupdates = minus the slices of dy at the indices.
std::vector<Output> subtract_gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0);
  return {dy, Output{}, negate(gradient_of_updates(ctx, dy))};
}

// All elements equal to y share dy.
std::vector<Output> extreme_gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), indices = ctx.input(1), updates = ctx.input(2);
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output one = constant_like(1, y), zero = constant_like(0, y);
  const Output in_x = where(equal(x, y), one, zero);
  const Output in_updates = where(equal(updates, gradient_of_updates(ctx, y)), one, zero);
  const Output share = dy / tensor_scatter_add(in_x, indices, in_updates);
  return {share * in_x, Output{}, gradient_of_updates(ctx, share) * in_updates};
}

// dx = dy, but 0 at replaced slices;  dupdates = the slices of dy at the indices, but 0 for updates
// that a later one replaced.
std::vector<Output> update_gradient(const GradientContext& ctx) {
  const Output indices = ctx.input(1), updates = ctx.input(2), dy = ctx.output_gradient(0);
  return {tensor_scatter_update(dy, indices, zeros_like(updates)), Output{},
          tensor_scatter_update_gradient(dy, indices, updates)};
}

template <class F, class... Ts>
Op row(const char* name, decltype(Op::gradient) gradient) {
  return tensor_scatter_op<F, float, double, int32_t, int64_t, uint8_t, Ts...>(name, gradient);
}

Output scatter_node(const char* op, Output x, Output indices, Output updates, Origin at) {
  return add_node({.op = op, .inputs = {x, indices, updates}}, at);
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  check_updates(ctx, ctx.input(0), ctx.input(1), ctx.input(2));
  return {ctx.input(2)};
}

// Linear in dy. Writing g for the gradient of dupdates, the gradient of dy is zeros with the slices
// replaced by g.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {tensor_scatter_update(zeros_like(ctx.input(0)), ctx.input(1), ctx.output_gradient(0)),
          Output{}, Output{}};
}

// Goes backwards from the last index, so that the first one seen of equal indices counts.
void cpu_gradient(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &dy = ctx.input(0), &indices = ctx.input(1);
  const Shape shape = dy.shape(), updates = ctx.input(2).shape();
  const Slices slices =
      named_slices(ctx, indices, shape, coordinates_of(shape, indices.shape(), updates));
  Tensor& output = ctx.output(0, updates);
  if (output.size() == 0) return;
  Tensor seen = ctx.scratch(DType::u8, Shape{dy.size() / slices.width});
  uint8_t* marks = seen.mutable_data<uint8_t>();
  std::memset(marks, 0, static_cast<size_t>(seen.size()));
  const auto bytes = static_cast<size_t>(slices.width * size_of(dy.dtype()));
  const char* from = static_cast<const char*>(dy.raw());
  char* to = static_cast<char*>(output.mutable_raw()) + output.byte_size();
  for (int64_t i = slices.count - 1; i >= 0; --i) {
    const int64_t number = slices.data()[i];
    to -= bytes;
    if (std::exchange(marks[number], uint8_t{1}))
      std::memset(to, 0, bytes);
    else
      std::memcpy(to, from + static_cast<size_t>(number) * bytes, bytes);
  }
}

}  // namespace

Output gather_nd(Output x, Output indices, int64_t coordinates, Origin at) {
  return add_node(
      {.op = "GatherNd", .inputs = {x, indices}, .attrs = {{"coordinates", coordinates}}}, at);
}

Output scatter_nd(Output indices, Output updates, Shape shape, Origin at) {
  return add_node({.op = "ScatterNd", .inputs = {indices, updates}, .attrs = {{"shape", shape}}},
                  at);
}

std::vector<Op> scatter_ops() {
  return {
      {.name = "GatherNd",
       .inputs = {"x", "indices"},
       .outputs = {"y"},
       .attrs = {{"coordinates", AttrKind::integer, int64_t{-1}}},
       .infer_dtypes = infer_dtype_with_indices,
       .infer_shapes = infer_gathered,
       .gradient = gradient_of_gather,
       .kernels = index_kernels(gather_slices, gather_slices),
       .dispatch = 1},
      {.name = "ScatterNd",
       .inputs = {"indices", "updates"},
       .outputs = {"y"},
       .attrs = {{"shape", AttrKind::shape}},
       .infer_dtypes = infer_scatter_dtypes,
       .infer_shapes = infer_scattered,
       .gradient = gradient_of_scatter,
       .kernels =
           number_kernels(scatter_slices<float>, scatter_slices<double>, scatter_slices<int32_t>,
                          scatter_slices<int64_t>, scatter_slices<uint8_t>),
       .dispatch = 1},
      // the slice += its update
      row<Add>("TensorScatterAdd", add_gradient),
      // the slice -= its update
      row<Subtract>("TensorScatterSub", subtract_gradient),
      // the slice = max(that slice, its update); NaN if either is NaN
      row<Maximum>("TensorScatterMax", extreme_gradient),
      // the slice = min(that slice, its update); NaN if either is NaN
      row<Minimum>("TensorScatterMin", extreme_gradient),
      // the slice = its update; if indices are equal, the last one's
      row<Replace, bool>("TensorScatterUpdate", update_gradient),
      // the slices at the indices, for the gradient of the last one
      {.name = "TensorScatterUpdateGradient",
       .inputs = {"dy", "indices", "updates_like"},
       .outputs = {"dupdates"},
       .infer_dtypes = infer_dtype_around_indices,
       .infer_shapes = infer_gradient_shapes,
       .gradient = gradient_of_gradient,
       .kernels = {{DeviceKind::cpu, DType::none, cpu_gradient}}},
  };
}

Output tensor_scatter_add(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterAdd", x, indices, updates, at);
}
Output tensor_scatter_sub(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterSub", x, indices, updates, at);
}
Output tensor_scatter_max(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterMax", x, indices, updates, at);
}
Output tensor_scatter_min(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterMin", x, indices, updates, at);
}
Output tensor_scatter_update(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterUpdate", x, indices, updates, at);
}

Output tensor_scatter_update_gradient(Output dy, Output indices, Output updates_like, Origin at) {
  return add_node({.op = "TensorScatterUpdateGradient", .inputs = {dy, indices, updates_like}}, at);
}

}  // namespace troupe
