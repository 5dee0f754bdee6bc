// Tensor: an immutable value of one dtype and shape in a shared buffer on one device. Implemented
// in graph/base/tensor.cpp.
//
// A Tensor is a 32-byte handle; copying it copies no elements. Elements are row-major and dense.
// The maker of a tensor may write it until it gives the handle away, as a feed, say; from then on
// the tensor is frozen, and so is a tensor that run() returned: clone() makes one to write.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/error.hpp"

namespace troupe {

// ----------------------------------------------------------------------------------------------
// The two 16-bit floating-point numbers that tensors hold: BFloat16 (8 bits of exponent, 8 of
// precision: the upper half of a float) and Float16 (IEEE 754 binary16: 5 bits of exponent, 11 of
// precision, at most 65504).
//
// They are for storage, not arithmetic: each is a float as soon as it is an operand, and becomes 16
// bits again by an explicit conversion, which rounds once, to nearest, ties to even. A number that
// is too large becomes an infinity, a small one a subnormal number or zero; a NaN stays a quiet NaN
// with its sign and the upper bits of its payload. No processor flag changes that.

namespace detail {

// A float from which both 16-bit formats round as they would from the double itself: rounded to odd
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
constexpr float to_odd_float(double number) {
  constexpr double kMax = std::numeric_limits<float>::max();
  if (number != number)
    return std::bit_cast<uint64_t>(number) >> 63 ? -__builtin_nanf("") : __builtin_nanf("");
  if (number > kMax || number < -kMax) {
    const float most = number - number != 0 ? std::numeric_limits<float>::infinity()
                                            : std::numeric_limits<float>::max();
    return number < 0 ? -most : most;
  }
  const auto nearest = static_cast<float>(number);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  const double back = nearest;
  if (back == number || bits & 1) return nearest;
  // Inexact and even: the neighbour on the other side of the number is odd.
  if (nearest == 0)
    return number < 0 ? -std::numeric_limits<float>::denorm_min()
                      : std::numeric_limits<float>::denorm_min();
  const bool beyond = (number < 0) ? back < number : back > number;
  return std::bit_cast<float>(beyond ? bits - 1 : bits + 1);
}

// The same for other types: an integer past 2^53 keeps a sticky bit for the digits a double would
// drop.
template <class T>
constexpr float to_odd_float(T number) {
  if constexpr (std::is_same_v<T, float>) {
    return number;
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    const T low = static_cast<T>(number & 0x7ff);
    const bool large = number > (int64_t{1} << 53) ||
                       (std::is_signed_v<T> && number < static_cast<T>(-(int64_t{1} << 53)));
    return to_odd_float(static_cast<double>(large && low ? (number - low) | 0x800 : number));
  } else {
    return to_odd_float(static_cast<double>(number));
  }
}

constexpr uint16_t bfloat16_bits(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

constexpr float bfloat16_value(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Computes every case and selects one, so that the compiler can vectorise loops of it.
constexpr uint16_t float16_bits(float number) {
  const auto all = std::bit_cast<uint32_t>(number);
  const uint32_t bits = all & 0x7fffffffu, sign = all >> 16 & 0x8000u;
  // From 2^-14 on: another bias, and the carry of rounding may reach infinity.
  const uint32_t normal = (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13;
  // Below it 0.5 + |x| has its last bit at 2^-24, as subnormal numbers have.
  const float small = std::bit_cast<float>(bits < 0x38800000u ? bits : 0u) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(small) - 0x3f000000u;
  const uint32_t special = bits > 0x7f800000u ? 0x7e00u | (bits >> 13 & 0x3ffu) : 0x7c00u;
  const uint32_t finite = bits < 0x38800000u ? subnormal : normal;
  return static_cast<uint16_t>(sign | (bits >= 0x47800000u ? special : finite));
}

constexpr float float16_value(uint16_t half) {
  const uint32_t bits = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16;
  // Exact, for subnormal numbers, too: 2^112 is the difference of the biases.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) * 0x1p112f);
  return std::bit_cast<float>(sign | (bits >= 0xf800000u ? bits | 0x7f800000u : finite));
}

}  // namespace detail

struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit BFloat16(T number)
      : bits(detail::bfloat16_bits(detail::to_odd_float(number))) {}
  constexpr operator float() const { return detail::bfloat16_value(bits); }
  static constexpr BFloat16 of_bits(uint16_t bits) { return std::bit_cast<BFloat16>(bits); }
};

struct Float16 {
  uint16_t bits;

  Float16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit Float16(T number) : bits(detail::float16_bits(detail::to_odd_float(number))) {}
  constexpr operator float() const { return detail::float16_value(bits); }
  static constexpr Float16 of_bits(uint16_t bits) { return std::bit_cast<Float16>(bits); }
};

static_assert(sizeof(BFloat16) == 2 && std::is_trivial_v<BFloat16>);
static_assert(sizeof(Float16) == 2 && std::is_trivial_v<Float16>);

// The types that are stored in 16 bits and computed as float.
template <class T>
inline constexpr bool is_half_v = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
// float, double and the 16-bit types.
template <class T>
inline constexpr bool is_real_v = std::is_floating_point_v<T> || is_half_v<T>;

// The numbers are used in files and on the wire: append new ones.
enum class DType : uint8_t { none = 0, f32, f64, i32, i64, u8, boolean, i8, f16, bf16 };
// Every dtype but none, by number.
inline constexpr DType kDTypes[] = {DType::f32,     DType::f64, DType::i32, DType::i64, DType::u8,
                                    DType::boolean, DType::i8,  DType::f16, DType::bf16};
// True if a number from outside is that of a dtype.
inline constexpr bool is_dtype(int64_t number) {
  return number > 0 && number <= static_cast<int64_t>(std::size(kDTypes));
}

const char* to_string(DType dtype);                // "f32", ..., "bf16"
DType dtype_from_string(const std::string& text);  // Throws: Error(invalid_argument).
inline constexpr int64_t size_of(DType d) {        // bytes an element
  return d == DType::f64 || d == DType::i64    ? 8
         : d == DType::f32 || d == DType::i32  ? 4
         : d == DType::f16 || d == DType::bf16 ? 2
                                               : 1;
}
// f16 and bf16: 16-bit real numbers, which are computed as f32 (troupe/tensor.hpp).
inline constexpr bool is_half(DType d) { return d == DType::f16 || d == DType::bf16; }
inline constexpr bool is_floating(DType d) {  // f32, f64, f16, bf16
  return d == DType::f32 || d == DType::f64 || is_half(d);
}
// The dtypes that parameters, their gradients and losses are kept in.
inline constexpr bool is_wide_float(DType d) { return d == DType::f32 || d == DType::f64; }
std::ostream& operator<<(std::ostream& out, DType dtype);

// The C++ types of elements, in the order of their DType.
using ElementTypes =
    std::tuple<float, double, int32_t, int64_t, uint8_t, bool, int8_t, Float16, BFloat16>;

// The DType of a C++ element type; other types do not compile.
template <class T>
inline constexpr DType dtype_of = []<class... E>(std::type_identity<std::tuple<E...>>) {
  static_assert(
      (std::is_same_v<T, E> || ...),
      "elements are float, double, Float16, BFloat16, int8_t, int32_t, int64_t, uint8_t or bool");
  int number = 1;
  (void)((std::is_same_v<T, E> || (++number, false)) || ...);
  return static_cast<DType>(number);
}(std::type_identity<ElementTypes>{});

// Calls f(T{}) with the C++ element type T of a dtype. Throws: InternalError for DType::none.
template <class F>
void with_type(DType dtype, F&& f) {
  [&]<class... E>(std::type_identity<std::tuple<E...>>) {
    if (!((dtype == dtype_of<E> && (f(E{}), true)) || ...))
      throw InternalError("elements without a dtype");
  }(std::type_identity<ElementTypes>{});
}

// The sizes of the dimensions, outermost first. In a graph, -1 means "unknown before the step
// runs".
class Shape {
 public:
  // No common model uses more; it bounds every reader of files and frames.
  static constexpr int kNdimMax = 8;

  Shape() = default;  // a scalar
  // Throws: Error(invalid_argument) past kNdimMax or for a size below -1, naming `at` if that has a
  // file.
  Shape(std::initializer_list<int64_t> dims, Origin at = Origin::here())
      : Shape(std::span(dims.begin(), dims.size()), at) {}
  explicit Shape(const std::vector<int64_t>& dims, Origin at = {})
      : Shape(std::span(dims.data(), dims.size()), at) {}
  explicit Shape(std::span<const int64_t> dims, Origin at = {});

  int ndim() const { return ndim_; }
  int64_t operator[](int i) const { return dims_[i]; }  // Requires: 0 <= i < ndim().
  void set(int i, int64_t size) { dims_[i] = size; }    // Requires: 0 <= i < ndim().
  std::span<const int64_t> dims() const { return {dims_, static_cast<size_t>(ndim_)}; }
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + ndim_; }
  bool is_known() const;  // no -1
  // Number of elements. Requires: is_known(). Throws: Error(invalid_argument) past 2^59 of them, so
  // that the number of bytes always fits, too.
  int64_t size() const;
  bool accepts(const Shape& known) const;  // same ndim, and equal sizes except where this one is -1
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.ndim_ == b.ndim_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  int64_t dims_[kNdimMax] = {};
  int32_t ndim_ = 0;
};
// True if two sizes or shapes are equal as far as both are known.
inline bool may_equal(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }
bool may_equal(const Shape& a, const Shape& b);
std::string to_string(const Shape& shape);  // "[2, -1]"
std::ostream& operator<<(std::ostream& out, const Shape& shape);

class BufferOwner;  // of the library: the source of a buffer, which takes it back

// The 16 bytes before the elements of a tensor; header and a scalar share a cache line.
struct Buffer {
  // The elements are elsewhere; their address follows this header.
  static constexpr uint32_t kForeign = 1u << 31;
  // Host code must not dereference the address.
  static constexpr uint32_t kOffHost = 1u << 30;
  static constexpr uint32_t kReadOnly = 1u << 29;  // the address cannot be written to

  std::atomic<uint32_t> refs;
  uint32_t tag;  // the flags above; the other bits belong to the owner (a size class, say)
  BufferOwner* owner;

  void* data() {
    return tag & kForeign ? *reinterpret_cast<void**>(this + 1) : static_cast<void*>(this + 1);
  }
};
static_assert(sizeof(Buffer) == 16);

class Tensor {
 public:
  Tensor() = default;  // holds nothing: defined() is false
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor other) noexcept {
    swap(other);
    return *this;
  }
  ~Tensor() { reset(); }

  // On the heap, elements not set / zero. For values that a program makes itself; kernels get
  // theirs from a device. Throws: Error(invalid_argument) naming `at` for a shape with a size of -1
  // or too many elements, and for DType::none; Error(out_of_memory).
  static Tensor empty(DType dtype, const Shape& shape, Origin at = Origin::here());
  static Tensor zeros(DType dtype, const Shape& shape, Origin at = Origin::here());
  // Copies `values`. Throws: Error(invalid_argument) naming `at` if their number is not
  // shape.size().
  template <class T>
  static Tensor of(std::span<const T> values, const Shape& shape, Origin at = Origin::here());
  template <class T>
  static Tensor of(std::initializer_list<T> values, const Shape& shape,
                   Origin at = Origin::here()) {
    return of(std::span<const T>(values.begin(), values.size()), shape, at);
  }
  template <class T>
  static Tensor of(const std::vector<T>& values, const Shape& shape, Origin at = Origin::here()) {
    return of(std::span<const T>(values.data(), values.size()), shape, at);
  }
  template <class T>
  static Tensor scalar(T value) {
    return of(std::span<const T>(&value, 1), Shape{});
  }

  bool defined() const { return buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  int ndim() const { return ndim_; }
  int64_t dim(int i) const { return flags_ & kWide ? wide_->dims[i] : dims_[i & 3]; }
  Shape shape() const;
  int64_t size() const {  // number of elements
    if (flags_ & kWide) return wide_size();
    uint64_t n = 1;  // wraps around where a 0 follows
    for (int i = 0; i < ndim_; ++i) n *= static_cast<uint64_t>(dims_[i]);
    return static_cast<int64_t>(n);
  }
  int64_t byte_size() const { return size() * size_of(dtype_); }
  bool on_host() const { return buffer_ && !(buffer_->tag & Buffer::kOffHost); }

  // A copy of the elements on the heap, which its maker may write. Throws: Error(invalid_argument)
  // naming `at` if this tensor holds nothing; InternalError unless on_host().
  Tensor clone(Origin at = Origin::here()) const;

  // Requires: on_host(). Throws: Error(invalid_argument) if dtype is not that of T, or the tensor
  // holds nothing.
  template <class T>
  const T* data() const {
    check_access(dtype_of<T>);
    return reinterpret_cast<const T*>(address());
  }
  template <class T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<size_t>(size())};
  }
  // The only element. Throws: Error(invalid_argument) naming dtype, shape and `at` for another
  // dtype or another number of elements.
  template <class T>
  T item(Origin at = Origin::here()) const {
    if (!buffer_ || dtype_ != dtype_of<T> || size() != 1) [[unlikely]]
      refuse_item(dtype_of<T>, at);
    return *data<T>();
  }
  // The element at one index for each dimension, t.at<float>({i, j}). Throws:
  // Error(invalid_argument) naming dtype, shape, indices and `at` if they do not fit.
  template <class T>
  T at(std::initializer_list<int64_t> indices, Origin at = Origin::here()) const {
    const int64_t i = offset_of(dtype_of<T>, std::span(indices.begin(), indices.size()), at);
    return data<T>()[i];
  }
  // For the maker of the tensor, before it gives the handle away; for others it may throw.
  template <class T>
  T* mutable_data() {
    check_access(dtype_of<T>, Buffer::kReadOnly);
    return reinterpret_cast<T*>(address());
  }
  const void* raw() const { return address(); }
  void* mutable_raw() { return address(); }

  // The same elements in another shape; no copy. Throws: Error(invalid_argument) unless the shape
  // is known and of the same size.
  Tensor reshaped(const Shape& shape) const;
  // Rows [begin, end) of the outermost dimension; no copy. Throws: Error(invalid_argument) for a
  // scalar, and for rows out of range.
  Tensor rows(int64_t begin, int64_t end) const;

  bool unique() const { return buffer_ && buffer_->refs.load(std::memory_order_acquire) == 1; }
  void reset() {
    if (buffer_) release();
  }
  void swap(Tensor& other) noexcept {
    char t[sizeof(Tensor)];
    std::memcpy(t, static_cast<void*>(this), sizeof t);
    std::memcpy(static_cast<void*>(this), static_cast<void*>(&other), sizeof t);
    std::memcpy(static_cast<void*>(&other), t, sizeof t);
  }

 private:
  // How the library makes tensors of buffers: graph/base/buffer.hpp.
  friend Tensor adopt(Buffer*, DType, const Shape&);
  friend Tensor tensor_type(DType, const Shape&);
  friend Tensor& become(Tensor&, Buffer*, const Tensor&);
  friend bool can_become(const Tensor&, const Tensor&);
  friend Buffer* buffer_of(const Tensor&);
  friend Buffer* detach(Tensor&);
  // More than four dimensions, or a size past 2^31: the sizes are out of line.
  static constexpr uint8_t kWide = 1;
  struct Wide {
    std::atomic<uint32_t> refs;
    int64_t dims[Shape::kNdimMax];
  };

  char* address() const {
    return buffer_ ? static_cast<char*>(buffer_->data()) + int64_t{offset_} * size_of(dtype_)
                   : nullptr;
  }
  void check_access(DType wanted, uint32_t barred = 0) const {
    if (wanted != dtype_ || !buffer_ || (buffer_->tag & (Buffer::kOffHost | barred))) [[unlikely]]
      refuse_access(wanted);
  }
  [[noreturn]] void refuse_access(DType wanted) const;
  [[noreturn]] void refuse_item(DType wanted, Origin at) const;
  int64_t offset_of(DType wanted, std::span<const int64_t> indices, Origin at) const;
  void set_shape(const Shape& shape);
  int64_t wide_size() const;
  void release();

  Buffer* buffer_ = nullptr;
  DType dtype_ = DType::none;
  uint8_t ndim_ = 0;
  uint8_t flags_ = 0;
  [[maybe_unused]] uint8_t unused_ = 0;  // named, as types are compared byte by byte
  uint32_t offset_ = 0;                  // elements before the first one
  union {
    int32_t dims_[4] = {0, 0, 0, 0};
    Wide* wide_;
  };
};
static_assert(sizeof(Tensor) == 32);

// Compares dtype, shape and every byte. Requires: both on the host.
bool same_bits(const Tensor& a, const Tensor& b);
// Prints dtype, shape and the first elements.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace troupe

// Limits of these types as numbers; they are not arithmetic types, so only constants that
// computations use are defined.
template <>
struct std::numeric_limits<troupe::BFloat16> {
  using T = troupe::BFloat16;
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 8, radix = 2, min_exponent = -125, max_exponent = 128;
  static constexpr T min() { return T::of_bits(0x0080); }
  static constexpr T max() { return T::of_bits(0x7f7f); }
  static constexpr T lowest() { return T::of_bits(0xff7f); }
  static constexpr T epsilon() { return T::of_bits(0x3c00); }
  static constexpr T denorm_min() { return T::of_bits(0x0001); }
  static constexpr T infinity() { return T::of_bits(0x7f80); }
  static constexpr T quiet_NaN() { return T::of_bits(0x7fc0); }
};
template <>
struct std::numeric_limits<troupe::Float16> {
  using T = troupe::Float16;
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 11, radix = 2, min_exponent = -13, max_exponent = 16;
  static constexpr T min() { return T::of_bits(0x0400); }
  static constexpr T max() { return T::of_bits(0x7bff); }
  static constexpr T lowest() { return T::of_bits(0xfbff); }
  static constexpr T epsilon() { return T::of_bits(0x1400); }
  static constexpr T denorm_min() { return T::of_bits(0x0001); }
  static constexpr T infinity() { return T::of_bits(0x7c00); }
  static constexpr T quiet_NaN() { return T::of_bits(0x7e00); }
};
