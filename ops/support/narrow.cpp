// The conversions of ops/support/narrow.hpp. They are integer arithmetic without branches, so every
// instruction set gives the same bits.
#include "ops/support/narrow.hpp"

#include "devices/kernel_call.hpp"
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

struct ConvertLoop {
  template <class From, class To>
  static void run(const From* from, To* to, int64_t n) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      to[i] = static_cast<To>(from[i]);  // NOLINT(bugprone-signed-char-misuse): i8 has a sign
  }
};

template <class From, class To>
void convert(const void* from, void* to, int64_t n) {
  in_isa<ConvertLoop>(static_cast<const From*>(from), static_cast<To*>(to), n);
}

}  // namespace

DType computed_as(DType dtype) {
  return is_half(dtype) ? DType::f32 : dtype == DType::i8 ? DType::i32 : DType::none;
}

void widen(DType dtype, const void* from, void* to, int64_t n) {
  if (dtype == DType::bf16) return convert<BFloat16, float>(from, to, n);
  if (dtype == DType::f16) return convert<Float16, float>(from, to, n);
  TROUPE_CHECK(dtype == DType::i8, "elements of ", dtype, " are computed with as they are");
  convert<int8_t, int32_t>(from, to, n);
}

void narrow(DType dtype, const void* from, void* to, int64_t n) {
  if (dtype == DType::bf16) return convert<float, BFloat16>(from, to, n);
  if (dtype == DType::f16) return convert<float, Float16>(from, to, n);
  TROUPE_CHECK(dtype == DType::i8, "elements of ", dtype, " are computed with as they are");
  convert<int32_t, int8_t>(from, to, n);
}

void widen_all(const KernelContext& ctx, const Tensor& from, Tensor& to) {
  const DType dtype = from.dtype();
  const int64_t size = size_of(dtype), wide = size_of(to.dtype());
  const char* x = static_cast<const char*>(from.raw());
  char* y = static_cast<char*>(to.mutable_raw());
  in_parts(ctx, from.size(),
           [=](int64_t begin, int64_t n) { widen(dtype, x + begin * size, y + begin * wide, n); });
}

void narrow_all(const KernelContext& ctx, const Tensor& from, Tensor& to, bool finishes) {
  const DType dtype = to.dtype();
  const int64_t size = size_of(dtype), wide = size_of(from.dtype());
  const char* x = static_cast<const char*>(from.raw());
  char* y = static_cast<char*>(to.mutable_raw());
  in_parts(ctx, from.size(), [=, &ctx](int64_t begin, int64_t n) {
    narrow(dtype, x + begin * wide, y + begin * size, n);
    if (finishes) KernelCall::of(ctx).finish(begin, n);
  });
}

}  // namespace troupe
