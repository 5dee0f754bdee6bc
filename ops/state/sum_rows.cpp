// SumRows: the distinct `indices`, in the order of their first appearance, and for each of them the
// sum of its rows of `values`, in their order.
//   indices: [i...], i32 or i64, each in [0, rows)   values: [i..., row...], f32 or f64
//   indices: [k], i64   values: [k, row...]
// k depends on the indices.
#include <limits>

#include "ops/state/pushes.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/indices.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  return {DType::i64, ctx.dtype(1)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(1));
  const Shape &indices = ctx.input(0), &values = ctx.input(1);
  if (ctx.attr<int64_t>("rows") < 0)
    throw ctx.error("wants at least 0 rows, got ", ctx.attr<int64_t>("rows"));
  if (!begins_with(values, indices))
    throw ctx.error("wants a row of values for each index, got indices ", indices, " and values ",
                    values);
  return {Shape{-1}, shape_with_rows(-1, sizes_from(values, indices.ndim()))};
}

// Maps each index to its row of the result: a hash table of 2^bits places, at most half full, with
// multiplicative hashing and linear probing (Knuth, volume 3, 6.4).
class Places {
 public:
  Places(KernelContext& ctx, int64_t n) {
    while (shift_ > 1 && (int64_t{1} << (64 - shift_)) < 2 * n) --shift_;
    const int64_t size = int64_t{1} << (64 - shift_);
    table_ = ctx.scratch(DType::i32, Shape{size});
    places_ = table_.mutable_data<int32_t>();
    std::fill_n(places_, size, -1);
    mask_ = static_cast<uint64_t>(size - 1);
  }
  // The index's row; -1 if it is not in the table yet.
  int32_t& of(int64_t index, const int64_t* known) {
    uint64_t at = static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15u >> shift_;
    while (places_[at] >= 0 && known[places_[at]] != index) at = (at + 1) & mask_;
    return places_[at];
  }

 private:
  Tensor table_;
  int32_t* places_ = nullptr;
  int shift_ = 63;
  uint64_t mask_ = 0;
};

// Sets known[k] and row_of[i]; returns the number of distinct indices.
template <class I>
int64_t find_places(KernelContext& ctx, const I* indices, int64_t n, int64_t* known,
                    int32_t* row_of) {
  int32_t k = 0;
  Places places(ctx, n);
  for (int64_t i = 0; i < n; ++i) {
    int32_t& place = places.of(indices[i], known);
    if (place < 0) {
      known[k] = indices[i];
      place = k++;
    }
    row_of[i] = place;
  }
  return k;
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &indices = ctx.input(0), &values = ctx.input(1);
  const int64_t n = indices.size();
  const Shape whole = values.shape();
  int64_t k = 0;  // distinct indices
  const int64_t width = size_between(whole, indices.ndim(), whole.ndim());
  if (n >= std::numeric_limits<int32_t>::max())
    throw ctx.error("takes less than 2^31 indices, got ", n);
  Tensor scratch = ctx.scratch(DType::i64, Shape{n}), rows = ctx.scratch(DType::i32, Shape{n});
  int64_t* const known = scratch.mutable_data<int64_t>();
  int32_t* const row_of = rows.mutable_data<int32_t>();
  with_indices(indices, [&](const auto* list) {
    check_indices(ctx, list, n, ctx.attr<int64_t>("rows"));
    k = find_places(ctx, list, n, known, row_of);
  });
  std::copy_n(known, k, ctx.output(0, Shape{k}).template mutable_data<int64_t>());
  const T* from = values.data<T>();
  T* to = ctx.output(1, shape_with_rows(k, sizes_from(whole, indices.ndim())))
              .template mutable_data<T>();
  int32_t next = 0;  // the first row not written yet
  for (int64_t i = 0; i < n; ++i, from += width) {
    T* row = to + int64_t{row_of[i]} * width;
    if (row_of[i] == next) {
      for (int64_t j = 0; j < width; ++j) row[j] = from[j];
      ++next;
    } else {
      for (int64_t j = 0; j < width; ++j) row[j] += from[j];
    }
  }
}

}  // namespace

Op sum_rows_op() {
  return {.name = "SumRows",
          .inputs = {"indices", "values"},
          .outputs = {"indices", "values"},
          .attrs = {{"rows", AttrKind::integer}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "it stands between gradients and their pushes",
          .kernels = float_kernels(cpu<float>, cpu<double>),
          .dispatch = 1,
          .value_shapes = true,
          .precision = Precision::wide};
}

RowSparse sum_rows(Output indices, Output values, int64_t rows, Origin at) {
  const auto outputs = all_outputs(
      add_node({.op = "SumRows", .inputs = {indices, values}, .attrs = {{"rows", rows}}}, at));
  return {outputs[0], outputs[1]};
}

}  // namespace troupe
