// Codec of the data plane: encodes a message as a small header and the memory of at most one
// tensor, little endian. No memory is allocated for a size in a header before that size was
// checked.
// Owner: the code that sends or reads the message. Thread: any; each object by one thread at a
// time.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "net/wire/messages.hpp"

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
  std::string text(size_t size_max = kTextMax);
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

struct Encoded {
  uint16_t kind = 0;  // index in the variant PlaneMessage
  std::vector<std::byte> header;
  Tensor payload;  // its elements follow the header; may be undefined
};
// Requires: the message's tensor is undefined or on the host. Gradients and pulled values get a
// crc32c.
Encoded encode(const PlaneMessage& message);

// A message whose tensor follows if `claim.defined`.
struct Decoded {
  PlaneMessage message;
  TensorClaim claim;
};
// Returns nothing and sets `why` if the header is not an output of encode().
std::optional<Decoded> decode(uint16_t kind, std::span<const std::byte> header, std::string& why);

// The tensor field of a message; null if its kind has none.
Tensor* tensor_of(PlaneMessage& message);
const Tensor* tensor_of(const PlaneMessage& message);
// Makes received elements valid: every bool becomes 0 or 1.
void sanitize(Tensor& tensor);

// The answer that tells the sender of `message` that no other answer will come; nothing if its kind
// has no answer.
std::optional<PlaneMessage> refusal_of(const PlaneMessage& message, Errc code,
                                       const std::string& text);
// The form in which the receiver gets `message` if its tensor is lost: with that error; nothing if
// its kind has no field for an error.
std::optional<PlaneMessage> failed_form_of(const PlaneMessage& message, Errc code,
                                           const std::string& text);

}  // namespace troupe
