// Codec of the data plane: encodes a message as a small header and the memory of at most one
// tensor, little endian. No memory is allocated for a size in a header before that size was
// checked.
//
// A message type lists its fields once, in inspect(), as for CAF; the codec writes and reads them
// in that order. The field types are numbers, bool, Errc, texts, one tensor, and structs of these.
// A change of the list requires a new kProtocolVersion (hello.hpp).
//
// Owner: the code that sends or reads the message. Thread: any; each object by one thread at a
// time.
#pragma once

#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/error.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

inline constexpr size_t kTextMax = 64 << 10;  // a longer text is truncated when it is sent
inline constexpr size_t kHeaderMax = kTextMax + (4 << 10);    // an encoded message without elements
inline constexpr int64_t kTensorBytesMax = int64_t{8} << 30;  // one tensor on the wire

// Appends little-endian values to a buffer.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  void bytes(const void* data, size_t size) {
    const size_t at = out_.size();
    out_.resize(at + size);
    if (size > 0) std::memcpy(out_.data() + at, data, size);
  }
  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void number(T value) {
    bytes(&value, sizeof value);
  }
  void text(std::string_view text, size_t size_max = kTextMax);  // truncates a longer one
  size_t size() const { return out_.size(); }

 private:
  std::vector<std::byte>& out_;
};

// Reads the values of a Writer. After the end of the input or a bad value, good() is false and
// every read returns zero.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  bool good() const { return good_; }
  bool at_end() const { return in_.empty(); }
  void fail() { good_ = false; }
  template <class T>
  requires(std::is_integral_v<T>) T number() {
    T value{};
    if (const std::byte* p = take(sizeof value)) std::memcpy(&value, p, sizeof value);
    return value;
  }
  bool boolean();
  Errc errc();
  std::string_view text(size_t size_max = kTextMax);  // valid as long as the input
  std::span<const std::byte> rest() { return std::exchange(in_, {}); }

 private:
  const std::byte* take(size_t size);

  std::span<const std::byte> in_;
  bool good_ = true;
};

// The description of a tensor that precedes its elements.
struct TensorClaim {
  bool defined = false;
  DType dtype = DType::none;
  Shape shape;
  int64_t bytes = 0;
  uint32_t crc = 0;  // of the elements, if `checked`
  bool checked = false;
};

// A message as it leaves: the bytes of its fields, and its tensor, whose elements follow them.
struct Encoded {
  uint16_t kind = 0;
  std::vector<std::byte> header;
  Tensor payload;  // may be undefined
};

// Writes the fields that inspect() of a message hands to it. Requires: the tensor is undefined or
// on the host.
class FieldWriter {
 public:
  // `checked`: the elements get a crc32c.
  FieldWriter(Encoded& out, bool checked)
      : out_(out.header), payload_(out.payload), checked_(checked) {}
  template <class... T>
  void operator()(const T&... fields) {
    (write(fields), ...);
  }

 private:
  template <class T>
  void write(const T& value) {
    if constexpr (std::is_class_v<T>)
      inspect(*this, const_cast<T&>(value));  // which only reads it
    else
      out_.number(value);
  }
  void write(double value) { out_.number(std::bit_cast<uint64_t>(value)); }
  void write(const std::string& text) {
    out_.text(text, kTextMax - std::min(kTextMax, out_.size()));  // bounds all texts together
  }
  void write(const Tensor& tensor);

  Writer out_;
  Tensor& payload_;
  const bool checked_;
};

// Reads the header of a message into the fields that inspect() hands to it.
class FieldReader {
 public:
  // For the claim only: texts are skipped, and the tensor is left undefined.
  FieldReader(std::span<const std::byte> header, TensorClaim& claim) : in_(header), claim_(claim) {}
  // `payload`: the tensor that arrived for the claim.
  FieldReader(std::span<const std::byte> header, TensorClaim& claim, Tensor payload)
      : in_(header), claim_(claim), payload_(std::move(payload)), texts_(true) {}
  template <class... T>
  void operator()(T&... fields) {
    (read(fields), ...);
  }
  bool complete() const { return in_.good() && in_.at_end(); }  // after all fields

 private:
  template <class T>
  void read(T& value) {
    if constexpr (std::is_class_v<T>)
      inspect(*this, value);
    else
      value = in_.number<T>();
  }
  void read(bool& value) { value = in_.boolean(); }
  void read(double& value) { value = std::bit_cast<double>(in_.number<uint64_t>()); }
  void read(Errc& value) { value = in_.errc(); }
  void read(std::string& value) {
    const std::string_view text = in_.text();
    if (texts_) value = text;
  }
  void read(Tensor& value) {
    read_claim();
    value = std::move(payload_);
  }
  void read_claim();

  Reader in_;
  TensorClaim& claim_;
  Tensor payload_;
  const bool texts_ = false;
};

inline std::span<const std::byte> elements_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(tensor.byte_size())};
}
// Makes received elements valid: every bool becomes 0 or 1.
void sanitize(Tensor& tensor);

}  // namespace troupe
