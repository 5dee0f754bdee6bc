// How the library makes tensors of the buffers of devices, and takes them apart again. Part of the
// implementation of troupe/tensor.hpp.
#pragma once

#include "troupe/tensor.hpp"

namespace troupe {

// Takes a buffer back when its last reference is dropped: a device's pool, the heap, a mapped
// segment.
class BufferOwner {
 public:
  virtual void release(Buffer* buffer) noexcept = 0;  // any thread

 protected:
  ~BufferOwner() = default;
};

// Drops a reference; true if it was the last one. A count of 1 means that no other thread holds a
// reference: no locked instruction is needed.
inline bool drop(Buffer& buffer) {
  return buffer.refs.load(std::memory_order_acquire) == 1 ||
         buffer.refs.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

// Takes over one reference to `buffer`, also when it throws. Requires: shape is known, and the
// buffer is large enough.
Tensor adopt(Buffer* buffer, DType dtype, const Shape& shape);
// A type without a value: dtype and shape, no buffer, so defined() is false; for become().
// Undefined and without a dtype when the shape has more than four dimensions, or a size that is
// unknown or past 2^31.
Tensor tensor_type(DType dtype, const Shape& shape);
// Like adopt(), for callers that make many tensors. Requires: `tensor` is undefined, and `like`
// comes from tensor_type() and has a dtype.
inline Tensor& become(Tensor& tensor, Buffer* buffer, const Tensor& like) {
  std::memcpy(static_cast<void*>(&tensor), static_cast<const void*>(&like), sizeof(Tensor));
  tensor.buffer_ = buffer;
  return tensor;
}
inline Buffer* buffer_of(const Tensor& tensor) { return tensor.buffer_; }
// True if `tensor` is the only handle of a host buffer that this process may write.
inline bool may_be_written(const Tensor& tensor) {
  return tensor.unique() && !(buffer_of(tensor)->tag & (Buffer::kForeign | Buffer::kOffHost));
}
// True if `tensor` is the only handle of a whole host buffer, from its first element on, and has
// the type of `like` (see become).
inline bool can_become(const Tensor& tensor, const Tensor& like) {
  const auto type = [](const Tensor& t) {
    return reinterpret_cast<const char*>(&t) + sizeof(Buffer*);
  };
  return std::memcmp(type(tensor), type(like), sizeof(Tensor) - sizeof(Buffer*)) == 0 &&
         may_be_written(tensor);
}
// Gives the reference away; `tensor` becomes undefined.
inline Buffer* detach(Tensor& tensor) {
  Buffer* buffer = std::exchange(tensor.buffer_, nullptr);
  if (tensor.flags_ & Tensor::kWide) [[unlikely]]
    tensor.release();
  else
    std::memset(static_cast<void*>(&tensor), 0, sizeof(Tensor));
  return buffer;
}
inline Buffer* detach(Tensor&& tensor) { return detach(tensor); }

}  // namespace troupe
