// Tensor, Shape and DType: handles, names, and the heap as an owner of buffers. Kernels get their
// outputs from a device's memory (devices/memory/memory.hpp) instead. Everything here is safe to
// call from any thread on different handles.
#include "graph/base/buffer.hpp"

#include <cstdlib>
#include <limits>
#include <new>
#include <ostream>

namespace troupe {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 59;   // times eight bytes: no overflow
constexpr int64_t kHeapBytesMax = int64_t{1} << 46;  // no x86-64 process has more
constexpr int64_t kAlignment = 64;                   // a cache line, and the widest vector register

// Owns the buffers of Tensor::empty(): no state, so it works before main and after it.
class Heap final : public BufferOwner {
 public:
  Buffer* allocate(int64_t bytes) {
    // The header ends where the first cache line of elements begins.
    void* block = nullptr;
    if (bytes <= kHeapBytesMax) {
      const int64_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      block = std::aligned_alloc(kAlignment, static_cast<size_t>(kAlignment + room));
    }
    if (!block)
      throw Error(Errc::out_of_memory, "the heap has no ", bytes,
                  " bytes for a tensor; use a smaller one");
    return new (static_cast<char*>(block) + kAlignment - sizeof(Buffer)) Buffer{{1}, 0, this};
  }
  void release(Buffer* buffer) noexcept override {
    std::free(reinterpret_cast<char*>(buffer) + sizeof(Buffer) - kAlignment);
  }
};

// Rows that begin past element 2^32 of a buffer: they have a header of their own, which holds a
// reference to the whole buffer.
struct FarRows {
  Buffer header;
  void* address;
  Buffer* whole;
};

class FarRowsOwner final : public BufferOwner {
 public:
  void release(Buffer* buffer) noexcept override {
    auto* rows = reinterpret_cast<FarRows*>(buffer);
    if (drop(*rows->whole)) rows->whole->owner->release(rows->whole);
    delete rows;
  }
};

Heap heap;
FarRowsOwner far_rows_owner;

// The error for an impossible request of a program; an unknown `at` is left out.
template <class... Parts>
Error refused(const char* what, Origin at, const Parts&... parts) {
  const std::string made = *at.file ? detail::concat(" made at ", at.file, ":", at.line, ":") : "";
  return Error(Errc::invalid_argument, what, made, " ", detail::concat(parts...));
}

int64_t elements_of(const Shape& shape, Origin at) {
  if (!shape.is_known())
    throw refused("a tensor", at, "wants a shape whose sizes are all known, got ", shape,
                  "; -1 is for placeholders, so give the number itself");
  try {
    return shape.size();
  } catch (const Error&) {  // the shape does not know the caller
    throw refused("a tensor", at, "of shape ", shape, " would have more than 2^59 elements");
  }
}

template <class T>
void print_elements(std::ostream& out, const Tensor& tensor) {
  constexpr int64_t kShown = 8;
  const auto values = tensor.values<T>();
  for (int64_t i = 0; i < std::min(tensor.size(), kShown); ++i) {
    out << (i ? ", " : "");
    if constexpr (std::is_same_v<T, bool>)
      out << (values[i] ? "true" : "false");
    else
      out << +values[i];
  }
  if (tensor.size() > kShown) out << ", ...";
}

}  // namespace

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::none:
      return "none";
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
    case DType::i8:
      return "i8";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
  }
  return "unknown";
}

DType dtype_from_string(const std::string& text) {
  for (DType d : kDTypes)
    if (text == to_string(d)) return d;
  throw Error(Errc::invalid_argument, "no dtype is called \"", text,
              "\"; there are f32, f64, i32, i64, u8, bool, i8, f16 and bf16");
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }

Shape::Shape(std::span<const int64_t> dims, Origin at) {
  if (dims.size() > kNdimMax)
    throw refused("a shape", at, "has at most ", int{kNdimMax}, " dimensions, got ", dims.size());
  for (int64_t size : dims) {
    if (size < -1)
      throw refused("a shape", at, "has dimensions of -1 (not known) or their size, got ", size);
    dims_[ndim_++] = size;
  }
}

bool Shape::is_known() const {
  return std::none_of(begin(), end(), [](int64_t size) { return size < 0; });
}

int64_t Shape::size() const {
  TROUPE_CHECK(is_known(), "the size of ", *this, " is not known before the step");
  if (std::find(begin(), end(), 0) != end()) return 0;
  int64_t n = 1;
  for (int64_t size : *this)
    if (__builtin_mul_overflow(n, size, &n) || n > kElementsMax)
      throw Error(Errc::invalid_argument, "a tensor of shape ", *this,
                  " has more than 2^59 elements");
  return n;
}

bool Shape::accepts(const Shape& known) const {
  if (ndim_ != known.ndim_) return false;
  for (int i = 0; i < ndim_; ++i)
    if (dims_[i] != -1 && dims_[i] != known.dims_[i]) return false;
  return true;
}

bool may_equal(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](int64_t m, int64_t n) { return may_equal(m, n); });
}

std::string to_string(const Shape& shape) { return detail::concat(shape); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << "[";
  for (int i = 0; i < shape.ndim(); ++i) out << (i ? ", " : "") << shape[i];
  return out << "]";
}

Tensor::Tensor(const Tensor& other) {
  std::memcpy(static_cast<void*>(this), static_cast<const void*>(&other), sizeof(Tensor));
  if (buffer_) buffer_->refs.fetch_add(1, std::memory_order_relaxed);
  if (flags_ & kWide) wide_->refs.fetch_add(1, std::memory_order_relaxed);
}

Tensor adopt(Buffer* buffer, DType dtype, const Shape& shape) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.buffer_ = buffer;
  tensor.set_shape(shape);
  return tensor;
}

Tensor tensor_type(DType dtype, const Shape& shape) {
  Tensor tensor;
  const bool compact =
      shape.ndim() <= 4 && std::all_of(shape.begin(), shape.end(), [](int64_t size) {
        return 0 <= size && size <= std::numeric_limits<int32_t>::max();
      });
  if (compact) {
    tensor.dtype_ = dtype;
    tensor.set_shape(shape);
  }
  return tensor;
}

Tensor Tensor::empty(DType dtype, const Shape& shape, Origin at) {
  if (dtype == DType::none)
    throw refused("a tensor", at, "of shape ", shape, " needs a dtype: f32, f64, i32, i64, u8 or ",
                  "bool");
  return adopt(heap.allocate(elements_of(shape, at) * size_of(dtype)), dtype, shape);
}

Tensor Tensor::zeros(DType dtype, const Shape& shape, Origin at) {
  Tensor tensor = empty(dtype, shape, at);
  std::memset(tensor.mutable_raw(), 0, static_cast<size_t>(tensor.byte_size()));
  return tensor;
}

template <class T>
Tensor Tensor::of(std::span<const T> values, const Shape& shape, Origin at) {
  if (static_cast<int64_t>(values.size()) != elements_of(shape, at))
    throw refused("a tensor", at, "of shape ", shape, " is not filled by ", values.size(),
                  " values");
  Tensor tensor = empty(dtype_of<T>, shape, at);
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.mutable_raw()));
  return tensor;
}
template Tensor Tensor::of(std::span<const float>, const Shape&, Origin);
template Tensor Tensor::of(std::span<const double>, const Shape&, Origin);
template Tensor Tensor::of(std::span<const int32_t>, const Shape&, Origin);
template Tensor Tensor::of(std::span<const int64_t>, const Shape&, Origin);
template Tensor Tensor::of(std::span<const uint8_t>, const Shape&, Origin);
template Tensor Tensor::of(std::span<const bool>, const Shape&, Origin);
template Tensor Tensor::of(std::span<const int8_t>, const Shape&, Origin);
template Tensor Tensor::of(std::span<const Float16>, const Shape&, Origin);
template Tensor Tensor::of(std::span<const BFloat16>, const Shape&, Origin);

Shape Tensor::shape() const {
  if (flags_ & kWide) return Shape(std::span<const int64_t>(wide_->dims, ndim_));
  int64_t dims[4];
  std::copy(dims_, dims_ + ndim_, dims);
  return Shape(std::span<const int64_t>(dims, ndim_));
}

Tensor Tensor::clone(Origin at) const {
  if (!buffer_)
    throw refused("a copy", at, "of a tensor that holds nothing; give it elements first");
  TROUPE_CHECK(on_host(), "only tensors on the host can be cloned");
  Tensor copy = empty(dtype_, shape(), at);
  std::memcpy(copy.mutable_raw(), raw(), static_cast<size_t>(byte_size()));
  return copy;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (!shape.is_known() || shape.size() != size())
    throw Error(Errc::invalid_argument, "a tensor of shape ", this->shape(),
                " cannot be reshaped to ", shape, "; give a shape of ", size(), " elements");
  Tensor view;
  view.dtype_ = dtype_;
  view.set_shape(shape);
  view.offset_ = offset_;
  view.buffer_ = buffer_;
  if (buffer_) buffer_->refs.fetch_add(1, std::memory_order_relaxed);
  return view;
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  if (!(ndim_ >= 1 && 0 <= begin && begin <= end && end <= dim(0)))
    throw Error(Errc::invalid_argument, "no rows ", begin, " to ", end, " in a tensor of shape ",
                shape());
  Shape shape = this->shape();
  const int64_t row = dim(0) ? size() / dim(0) : 0;  // elements
  shape.set(0, end - begin);
  const int64_t offset = offset_ + begin * row;
  Tensor view = reshaped(this->shape());
  if (offset <= std::numeric_limits<uint32_t>::max()) {
    view.offset_ = static_cast<uint32_t>(offset);
  } else {
    char* address = static_cast<char*>(buffer_->data()) + offset * size_of(dtype_);
    const uint32_t tag = Buffer::kForeign | (buffer_->tag & Buffer::kOffHost);
    // The new header takes over the view's reference to the whole buffer.
    auto* far = new FarRows{{{1}, tag, &far_rows_owner}, address, view.buffer_};
    view.buffer_ = &far->header;
    view.offset_ = 0;
  }
  view.set_shape(shape);
  return view;
}

void Tensor::release() {
  if (flags_ & kWide && wide_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete wide_;
  if (buffer_ && drop(*buffer_)) buffer_->owner->release(buffer_);
  std::memset(static_cast<void*>(this), 0, sizeof(Tensor));
}

// Replaces the sizes. Sizes out of line may have other readers, so they are never written again.
void Tensor::set_shape(const Shape& shape) {
  const bool wide = shape.ndim() > 4 || std::any_of(shape.begin(), shape.end(), [](int64_t size) {
                      return size > std::numeric_limits<int32_t>::max();
                    });
  Wide* sizes = wide ? new Wide{{1}, {}} : nullptr;  // may throw, so it comes before any change
  if (flags_ & kWide && wide_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete wide_;
  flags_ = static_cast<uint8_t>((flags_ & ~kWide) | (wide ? kWide : 0));
  ndim_ = static_cast<uint8_t>(shape.ndim());
  if (wide) {
    std::copy(shape.begin(), shape.end(), sizes->dims);
    wide_ = sizes;
  } else {
    for (int i = 0; i < 4; ++i) dims_[i] = i < shape.ndim() ? static_cast<int32_t>(shape[i]) : 0;
  }
}

int64_t Tensor::wide_size() const { return shape().size(); }

void Tensor::refuse_access(DType wanted) const {
  if (!buffer_)
    throw Error(Errc::invalid_argument, "the elements of a tensor that holds nothing were read as ",
                wanted);
  if (wanted != dtype_)
    throw Error(Errc::invalid_argument, "the elements of a tensor ", dtype_, shape(),
                " were read as ", wanted, "; read them as ", dtype_, ", or cast() the value");
  if (on_host())
    throw Error(Errc::invalid_argument, "the elements of a tensor ", dtype_, shape(),
                " cannot be written: they are in memory of another process; write to a clone()");
  throw InternalError("the elements of a tensor ", dtype_, shape(),
                      " were read on the host, but they are on a device");
}

void Tensor::refuse_item(DType wanted, Origin at) const {
  if (!buffer_) throw refused("item()", at, "wants a ", wanted, ", the tensor holds nothing");
  throw refused("item()", at, "wants one element of ", wanted, ", the tensor is ", dtype_, shape(),
                size() == 1 ? "; name its C++ type, or cast() the value"
                            : "; at() reads an element, values() reads all");
}

int64_t Tensor::offset_of(DType wanted, std::span<const int64_t> indices, Origin at) const {
  const auto list = [&] {
    std::string text;
    for (int64_t i : indices) text += (text.empty() ? "" : ", ") + std::to_string(i);
    return "{" + text + "}";
  };
  if (!buffer_ || wanted != dtype_)
    throw refused("at()", at, "wants an element of ", wanted, " at ", list(), ", the tensor ",
                  buffer_ ? detail::concat("is ", dtype_, shape()) : "holds nothing");
  bool inside = indices.size() == ndim_;
  int64_t offset = 0;
  for (int d = 0; inside && d < ndim_; ++d) {
    const int64_t i = indices[static_cast<size_t>(d)];
    inside = 0 <= i && i < dim(d);
    offset = offset * dim(d) + i;
  }
  if (!inside)
    throw refused("at()", at, "no element ", list(), " in a tensor ", dtype_, shape(),
                  "; give one index from 0 for each dimension");
  return offset;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  TROUPE_CHECK(a.on_host() && b.on_host(), "only tensors on the host can be compared");
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.byte_size())) == 0;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "undefined tensor";
  out << tensor.dtype() << tensor.shape();
  if (!tensor.on_host()) return out << " on a device";
  out << " {";
  with_type(tensor.dtype(), [&]<class T>(T) { print_elements<T>(out, tensor); });
  return out << "}";
}

}  // namespace troupe
