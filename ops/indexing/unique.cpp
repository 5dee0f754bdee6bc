// Unique: values = the distinct elements of x, in the order of their first appearance; indices =
// the number of each element's value; counts = the number of occurrences of each value. All NaN are
// one value, and so are 0 and -0.
//   x: any shape   values: [k]   indices: the shape of x, i64   counts: [k], i64
// k depends on the elements. x = gather(values, indices).
#include <algorithm>
#include <bit>
#include <limits>

#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  return {ctx.dtype(0), DType::i64, DType::i64};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {Shape{-1}, ctx.input(0), Shape{-1}};
}

// The same bits for equal elements only.
template <class T>
uint64_t bits_of(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    if (x != x) return std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN());
    return std::bit_cast<Bits>(x + T{0});  // -0 + 0 is 0
  } else {
    return static_cast<uint64_t>(x);
  }
}

// A hash table of 2^bits places, at most half full, with multiplicative hashing and linear probing
// (Knuth, volume 3, 6.4).
class Table {
 public:
  Table(KernelContext& ctx, int64_t n) : shift_(63) {
    while (shift_ > 1 && (int64_t{1} << (64 - shift_)) < 2 * n) --shift_;
    const int64_t size = int64_t{1} << (64 - shift_);
    places_ = ctx.scratch(DType::i64, Shape{size});
    std::fill_n(places_.mutable_data<int64_t>(), size, int64_t{-1});
    mask_ = static_cast<uint64_t>(size - 1);
  }
  // The place of an element: of its equal, or a free one (-1). same(k): true if value k is equal to
  // the element.
  template <class Same>
  int64_t& place(uint64_t bits, Same same) {
    int64_t* places = places_.mutable_data<int64_t>();
    uint64_t at = bits * 0x9E3779B97F4A7C15u >> shift_;
    while (places[at] >= 0 && !same(places[at])) at = (at + 1) & mask_;
    return places[at];
  }

 private:
  Tensor places_;
  int shift_;
  uint64_t mask_ = 0;
};

template <class T>
void cpu(KernelContext& ctx) {
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  Tensor first = ctx.scratch(DType::i64, Shape{n});  // the first position of value k
  int64_t* firsts = first.mutable_data<int64_t>();
  int64_t* indices = ctx.output(1, ctx.input(0).shape()).template mutable_data<int64_t>();
  int64_t k = 0;
  Table table(ctx, n);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = bits_of(x[i]);
    int64_t& place = table.place(bits, [&](int64_t v) { return bits_of(x[firsts[v]]) == bits; });
    if (place < 0) {
      firsts[k] = i;
      place = k++;
    }
    indices[i] = place;
  }
  T* values = ctx.output(0, Shape{k}).template mutable_data<T>();
  int64_t* counts = ctx.output(2, Shape{k}).template mutable_data<int64_t>();
  for (int64_t v = 0; v < k; ++v) values[v] = x[firsts[v]];
  std::fill_n(counts, k, int64_t{0});
  for (int64_t i = 0; i < n; ++i) ++counts[indices[i]];
}

}  // namespace

Op unique_op() {
  return {.name = "Unique",
          .inputs = {"x"},
          .outputs = {"values", "indices", "counts"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "how many values there are jumps wherever two of them meet",
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>},
                      {DeviceKind::cpu, DType::i32, cpu<int32_t>},
                      {DeviceKind::cpu, DType::i64, cpu<int64_t>},
                      {DeviceKind::cpu, DType::u8, cpu<uint8_t>},
                      {DeviceKind::cpu, DType::boolean, cpu<bool>}},
          .value_shapes = true};
}

Unique unique(Output x, Origin at) {
  const auto outputs = all_outputs(add_node({.op = "Unique", .inputs = {x}}, at));
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace troupe
